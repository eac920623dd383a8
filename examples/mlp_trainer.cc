#include "examples/mlp_trainer.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "examples/host_all_reduce.h"
#include "examples/mlp_replica.h"

namespace mlp {
namespace {

class Trainer {
 public:
  Trainer(ringfeed::DeviceFeed* feed, Kernels* kernels, const TrainOptions& options,
          const std::function<void(const Step&)>& on_step)
      : feed_(feed),
        kernels_(kernels),
        options_(options),
        on_step_(on_step),
        waited_ms_(feed->devices().size()),
        all_reduce_(feed->backend(), feed->devices().size(), kSums,
                    [this](std::span<const float> sums) { EndStep(sums); }) {}

  void Run() {
    {
      std::vector<std::jthread> threads;
      for (std::size_t d = 0; d < feed_->devices().size(); ++d) {
        threads.emplace_back([this, d] { RunDevice(d); });
      }
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void RunDevice(std::size_t d) {
    try {
      Replica replica(feed_->backend(), kernels_, feed_->devices()[d], options_.batch_rows);
      while (std::optional<ringfeed::DeviceLease> batch = NextBatch(d)) {
        replica.Gradient(std::move(*batch), all_reduce_.Addend(d));
        replica.Update(all_reduce_.Sum(), options_.rate);
      }
    } catch (const std::exception&) {
      Fail(std::current_exception());
    }
    all_reduce_.Leave(d);
  }

  std::optional<ringfeed::DeviceLease> NextBatch(std::size_t d) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<ringfeed::DeviceLease> batch = feed_->Next(d);
    const auto end = std::chrono::steady_clock::now();
    waited_ms_[d] = std::chrono::duration<double, std::milli>(end - begin).count();
    return batch;
  }

  void EndStep(std::span<const float> sums) {
    on_step_({++steps_, sums[kWeights], sums[kWeights + 1], waited_ms_});
  }

  void Fail(std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::move(failure);
    }
    (void)feed_->Close();  // the other threads' loops end too
  }

  ringfeed::DeviceFeed* const feed_;
  Kernels* const kernels_;
  const TrainOptions options_;
  const std::function<void(const Step&)>& on_step_;
  std::vector<double> waited_ms_;  ///< of the step at hand
  std::size_t steps_ = 0;
  HostAllReduce all_reduce_;
  std::mutex mutex_;  ///< guards what follows
  std::exception_ptr failure_;
};

}  // namespace

void Train(ringfeed::DeviceFeed* feed, Kernels* kernels, const TrainOptions& options,
           const std::function<void(const Step&)>& on_step) {
  Trainer(feed, kernels, options, on_step).Run();
}

}  // namespace mlp
