// A training loop on several devices: a small network, data parallel, a thread per device.
//
//   train_multi_gpu --make clouds && train_multi_gpu clouds/*.tfrecord
//   train_multi_gpu --devices cuda:0,1 clouds/*.tfrecord
//
// Without --devices it takes CUDA's where there are some, else two emulated ones. Each step prints
// its loss and how long each device's loop waited for its batch: the stall that a feed is to avoid.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "examples/host_all_reduce.h"
#include "examples/mlp.h"
#include "examples/mlp_data.h"
#include "examples/mlp_replica.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/device_kinds.h"
#include "ringfeed/emulated_devices.h"
#if RINGFEED_WITH_CUDA
#include "ringfeed/cuda_devices.h"
#endif

namespace rf = ringfeed;

namespace {

constexpr std::uint64_t kPasses = 2;
constexpr std::size_t kBatchRows = 64;
constexpr std::uint64_t kMadeRecords = 16384;
constexpr float kRate = 0.1F;

[[noreturn]] void Refuse(const std::string& why) {
  throw rf::Error(rf::Status(rf::StatusCode::kInvalidArgument, why));
}

struct Devices {
  std::shared_ptr<rf::DeviceBackend> backend;
  std::vector<int> numbers;  ///< empty: all
};

template <typename Number>
Number ParseNumber(std::string_view word, const char* option) {
  Number number = 0;
  const char* const end = word.data() + word.size();
  if (std::from_chars(word.data(), end, number).ptr != end || word.empty()) {
    Refuse(std::string(option) + ": '" + std::string(word) + "' is no number");
  }
  return number;
}

std::vector<int> ParseNumbers(std::string_view text, const char* option) {
  std::vector<int> numbers;
  std::size_t comma = 0;
  for (std::size_t begin = 0; comma != std::string_view::npos; begin = comma + 1) {
    comma = text.find(',', begin);
    numbers.push_back(ParseNumber<int>(text.substr(begin, comma - begin), option));
  }
  return numbers;
}

std::string DefaultDevices() {
  for (const rf::DeviceKindStatus& kind : rf::DeviceKinds()) {
    if (kind.name == "cuda" && kind.status.ok()) return "cuda";
  }
  return "emu:2";
}

Devices OpenDevices(const std::string& text) {
  constexpr std::string_view kNumbered = "cuda:";
  if (text.empty()) return {rf::OpenDevices(DefaultDevices()), {}};
  if (!text.starts_with(kNumbered)) return {rf::OpenDevices(text), {}};
  std::vector<int> numbers = ParseNumbers(text.substr(kNumbered.size()), "--devices");
  return {rf::OpenDevices("cuda"), std::move(numbers)};
}

std::unique_ptr<mlp::Kernels> KernelsOf(const std::shared_ptr<rf::DeviceBackend>& backend) {
  if (auto emulated = std::dynamic_pointer_cast<rf::EmulatedDevices>(backend)) {
    return mlp::KernelsOnHost(std::move(emulated));
  }
#if RINGFEED_WITH_CUDA
  if (backend->name() == "cuda") return mlp::KernelsOnCuda();
#endif
  Refuse("there is no network for devices of kind " + std::string(backend->name()));
}

/// What each step was, for the passes' means.
class History {
 public:
  void Add(float loss, float rows) {
    steps_.push_back({loss, rows});
    rows_ += rows;
  }
  std::size_t steps() const { return steps_.size(); }
  /// The mean loss of a row in the pass. A step counts for the pass that it begins in.
  double PassLoss(std::uint64_t pass) const {
    const double begin = rows_ / kPasses * static_cast<double>(pass);
    const double end = begin + rows_ / kPasses;
    double loss = 0, rows = 0, before = 0;
    for (const Step& step : steps_) {
      const bool inside = before >= begin && before < end;
      before += step.rows;
      if (inside) loss += step.loss, rows += step.rows;
    }
    return loss / rows;
  }

 private:
  struct Step {
    double loss;
    double rows;
  };
  std::vector<Step> steps_;
  double rows_ = 0;
};

class Trainer {
 public:
  Trainer(rf::DeviceFeed* feed, mlp::Kernels* kernels)
      : feed_(feed),
        kernels_(kernels),
        waited_ms_(feed->devices().size()),
        all_reduce_(feed->backend(), feed->devices().size(), mlp::kSums,
                    [this](std::span<const float> sums) { EndStep(sums); }) {}

  /// Until the data end. Throws the first failure.
  void Run() {
    {
      std::vector<std::jthread> threads;
      for (std::size_t d = 0; d < waited_ms_.size(); ++d) {
        threads.emplace_back([this, d] { RunDevice(d); });
      }
    }
    if (failure_) std::rethrow_exception(failure_);
  }
  const History& history() const { return history_; }

 private:
  void RunDevice(std::size_t d) {
    try {
      mlp::Replica replica(feed_->backend(), kernels_, feed_->devices()[d], kBatchRows);
      while (std::optional<rf::DeviceLease> batch = NextBatch(d)) {
        replica.Gradient(std::move(*batch), all_reduce_.Addend(d));
        replica.Update(all_reduce_.Sum(), kRate);
      }
    } catch (const std::exception&) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      (void)feed_->Close();  // ends the other threads' loops
    }
    all_reduce_.Leave(d);
  }

  std::optional<rf::DeviceLease> NextBatch(std::size_t d) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<rf::DeviceLease> batch = feed_->Next(d);
    const auto end = std::chrono::steady_clock::now();
    waited_ms_[d] = std::chrono::duration<double, std::milli>(end - begin).count();
    return batch;
  }

  void EndStep(std::span<const float> sums) {
    const float loss = sums[mlp::kWeights], rows = sums[mlp::kWeights + 1];
    history_.Add(loss, rows);
    std::printf("step %4zu  loss %.4f  waited", history_.steps(), double{loss / rows});
    for (const double waited_ms : waited_ms_) std::printf(" %6.3f", waited_ms);
    std::printf(" ms\n");
  }

  rf::DeviceFeed* const feed_;
  mlp::Kernels* const kernels_;
  std::vector<double> waited_ms_;  ///< per device, of the step at hand
  History history_;
  HostAllReduce all_reduce_;
  std::mutex mutex_;  ///< guards what follows
  std::exception_ptr failure_;
};

/// 1 where an emulated device was used as a real one must not be.
int ReportHazards(const rf::DeviceBackend& backend) {
  const auto* const emulated = dynamic_cast<const rf::EmulatedDevices*>(&backend);
  if (emulated == nullptr) return 0;
  const std::vector<rf::Offence> offences = emulated->offences();
  for (const rf::Offence& offence : offences) {
    std::fprintf(stderr, "hazard: %s\n", offence.ToString().c_str());
  }
  std::printf("hazards: %zu\n", offences.size());
  return offences.empty() ? 0 : 1;
}

int Train(const Devices& devices, const std::vector<std::string>& files) {
  const auto kernels = KernelsOf(devices.backend);
  {
    // Where the last batches do not go round, all devices share their rows: none steps alone.
    rf::DeviceFeed feed(mlp::OpenData(files, kPasses, kBatchRows),
                        {.backend = devices.backend,
                         .devices = devices.numbers,
                         .last_step = rf::LastStep::kShort});
    Trainer trainer(&feed, kernels.get());
    trainer.Run();
    for (std::uint64_t pass = 0; pass < kPasses; ++pass) {
      std::printf("pass %d: loss %.4f\n", static_cast<int>(pass) + 1,
                  trainer.history().PassLoss(pass));
    }
    for (const rf::DeviceFeedStats& stats : feed.Stats().devices) {
      std::printf("device %d: %d batches, waited %.3f s\n", stats.device,
                  static_cast<int>(stats.batches), stats.wait_s);
    }
  }
  return ReportHazards(*devices.backend);
}

}  // namespace

int main(int argc, char** argv) try {
#if RINGFEED_WITH_CUDA
  rf::UseCuda();
#endif
  std::string devices, folder_to_make;
  std::uint64_t records = kMadeRecords;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (!word.starts_with("--")) {
      files.push_back(word);
    } else if (word == "--devices" && has_value) {
      devices = argv[++i];
    } else if (word == "--make" && has_value) {
      folder_to_make = argv[++i];
    } else if (word == "--records" && has_value) {
      records = ParseNumber<std::uint64_t>(argv[++i], "--records");
    } else {
      Refuse(word + ": --devices cuda:0,1 or emu:2, --make FOLDER and --records N are known");
    }
  }
  if (folder_to_make.empty()) return Train(OpenDevices(devices), files);
  mlp::MakeData(folder_to_make, records);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_multi_gpu: %s\n", error.what());
  return 2;
}
