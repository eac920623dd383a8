// A training loop on several devices: a small network, data parallel, a thread per device.
//
//   train_multi_gpu --make clouds && train_multi_gpu clouds/*.tfrecord
//   train_multi_gpu --devices cuda:0,1 clouds/*.tfrecord
//
// Without --devices it takes CUDA's if they can be used, else two emulated ones, and says which.
// Each step prints its loss and how long each device's loop waited for its batch: the stall that a
// feed is to avoid.
#include <charconv>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/mlp.h"
#include "examples/mlp_data.h"
#include "examples/mlp_trainer.h"
#include "ringfeed/ringfeed.h"
#if RINGFEED_WITH_CUDA
#include "ringfeed/devices/cuda_devices.h"
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

Devices OpenAnyDevices() {
  rf::AutoDevices taken = rf::OpenAutoDevices();
  std::fprintf(stderr, "devices: %s\n", taken.reason.c_str());
  return {std::move(taken.backend), {}};
}

Devices OpenDevices(const std::string& text) {
  constexpr std::string_view kNumbered = "cuda:";
  if (text.empty()) return OpenAnyDevices();
  if (!text.starts_with(kNumbered)) return {rf::OpenDevices(text), {}};
  std::vector<int> numbers = ParseNumbers(text.substr(kNumbered.size()), "--devices");
  return {rf::OpenDevices("cuda"), std::move(numbers)};
}

std::unique_ptr<mlp::Kernels> KernelsOf(const std::shared_ptr<rf::DeviceBackend>& backend) {
  if (auto emulated = std::dynamic_pointer_cast<rf::EmulatedDevices>(backend)) {
    return mlp::KernelsOnHost(std::move(emulated));
  }
#if RINGFEED_WITH_CUDA
  if (backend->type() == rf::DeviceType::kCuda) return mlp::KernelsOnCuda();
#endif
  Refuse("there is no network for devices of kind " + std::string(backend->name()));
}

/// The steps' losses, for the passes' means.
class History {
 public:
  void Add(const mlp::Step& step) {
    steps_.push_back({step.loss, step.rows});
    rows_ += step.rows;
  }
  /// The mean over the rows of a pass. A step counts for the pass that it begins in.
  double PassLoss(std::uint64_t pass) const {
    const double pass_rows = rows_ / static_cast<double>(kPasses);
    const double begin = pass_rows * static_cast<double>(pass);
    double loss = 0, rows = 0, before = 0;
    for (const auto& [step_loss, step_rows] : steps_) {
      if (before >= begin && before < begin + pass_rows) loss += step_loss, rows += step_rows;
      before += step_rows;
    }
    return loss / rows;
  }

 private:
  std::vector<std::pair<double, double>> steps_;  ///< loss and rows
  double rows_ = 0;
};

void Print(const mlp::Step& step) {
  std::printf("step %4zu  loss %.4f  waited", step.number, step.loss / step.rows);
  for (const double waited_ms : step.waited_ms) std::printf(" %6.3f", waited_ms);
  std::printf(" ms\n");
}

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
    History history;
    mlp::Train(&feed, kernels.get(), {.batch_rows = kBatchRows, .rate = kRate},
               [&](const mlp::Step& step) { history.Add(step), Print(step); });
    for (std::uint64_t pass = 0; pass < kPasses; ++pass) {
      std::printf("pass %d: loss %.4f\n", static_cast<int>(pass) + 1, history.PassLoss(pass));
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
