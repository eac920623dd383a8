#include "tools/bench/gpu_steps.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "base/machine/signals_blocked.h"
#include "gpu/feed/feed_core.h"
#include "tools/bench/gpu_copies.h"
#include "tools/inspect/checked_sums.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kLoadsAhead = 8;   // enqueued at a time: the host is never what is waited for
constexpr std::size_t kStepsAhead = 64;  // whose events are kept
constexpr std::uint64_t kWarmUpSteps = 16;
constexpr std::size_t kMostSteps = std::size_t{1} << 17;

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double QuantileOf(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// Points in one step: before its batch is there, behind that, at its end.
struct StepEvents {
  explicit StepEvents(const OwnedDevice& device) : begin(device), fed(device), end(device) {}
  OwnedEvent begin;
  OwnedEvent fed;
  OwnedEvent end;
};

/// The training loop. Its thread never blocks on the device while it runs.
class StepLoop {
 public:
  StepLoop(const OwnedDevice& device, StepLoad* load, const MemoryBatches& batches,
           std::uint64_t loads_per_step)
      : device_(device),
        load_(load),
        batches_(batches),
        loads_per_step_(loads_per_step),
        stream_(device),
        sums_(device, kMostSteps) {
    for (std::size_t i = 0; i < kStepsAhead; ++i) events_.emplace_back(device);
    FeedOptions options;
    options.backend = device.backend;
    options.devices = {device.number};
    options.slots = SlotsFor(batches.batch_bytes());
    core_ = FeedCore::Start(batches.Supply(std::numeric_limits<std::uint64_t>::max()), options);
  }
  ~StepLoop() { (void)core_->Close(); }
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  StepsResult Run(double seconds) {
    for (std::uint64_t i = 0; i < kWarmUpSteps; ++i) Step();
    while (measured_ < steps_) Measure();
    steps_s_.clear();
    stalls_s_.clear();
    leases_s_.clear();
    const BackendCounters before = device_.backend->Counters();
    const std::int64_t begin_ns = device_.backend->NowNanos();
    const auto length_ns = static_cast<std::int64_t>(seconds * 1e9);
    do {
      Step();
    } while (device_.backend->NowNanos() - begin_ns < length_ns && !sums_.full());
    while (measured_ < steps_) Measure();
    const std::int64_t wall_ns = device_.backend->NowNanos() - begin_ns;
    const BackendCounters after = device_.backend->Counters();
    StepsResult result = Result();
    result.wall_per_step_s = static_cast<double>(wall_ns) / 1e9 / static_cast<double>(result.steps);
    result.host_syncs = after.syncs - before.syncs;
    result.allocations = after.allocations - before.allocations;
    return result;
  }

 private:
  void Step() {
    if (steps_ - measured_ == kStepsAhead) Measure();
    StepEvents& events = events_[steps_ % kStepsAhead];
    events.begin.Record(stream_);
    DeviceLease lease;
    Status status;
    const double before_s = ThreadCpuSeconds();
    if (core_->TryNext(&lease, &status) != ReadResult::kRecord) throw Error(status);
    const Tensor& tensor = lease.On(stream_.get()).front();
    const double taken_s = ThreadCpuSeconds();
    events.fed.Record(stream_);
    sums_.Add(stream_, tensor);
    for (std::uint64_t i = 0; i < loads_per_step_; ++i) load_->Enqueue(stream_);
    events.end.Record(stream_);
    const double computed_s = ThreadCpuSeconds();
    lease.Release();
    leases_s_.push_back(ThreadCpuSeconds() - computed_s + taken_s - before_s);
    ++steps_;
  }

  // The oldest step whose events are not read yet.
  void Measure() {
    const StepEvents& events = events_[measured_ % kStepsAhead];
    events.end.Await();
    stalls_s_.push_back(events.fed.SecondsSince(events.begin));
    steps_s_.push_back(events.end.SecondsSince(events.fed));
    ++measured_;
  }

  StepsResult Result() {
    StepsResult result;
    result.steps = steps_s_.size();
    const double stalls_s = std::accumulate(stalls_s_.begin(), stalls_s_.end(), 0.0);
    const double steps_s = std::accumulate(steps_s_.begin(), steps_s_.end(), 0.0);
    result.step_s = QuantileOf(steps_s_, 0.5);
    result.stall_share = stalls_s / (stalls_s + steps_s);
    result.stall_p99_s = QuantileOf(stalls_s_, 0.99);
    result.lease_median_s = QuantileOf(leases_s_, 0.5);
    result.lease_p99_s = QuantileOf(leases_s_, 0.99);
    std::uint64_t number = 0;
    for (const std::uint64_t sum : sums_.Collect(stream_)) {
      result.wrong += sum == batches_.ChecksumOf(number++) ? 0 : 1;
    }
    return result;
  }

  const OwnedDevice& device_;
  StepLoad* const load_;
  const MemoryBatches& batches_;
  const std::uint64_t loads_per_step_;
  const OwnedStream stream_;
  CheckedSums sums_;
  std::vector<StepEvents> events_;
  std::shared_ptr<FeedCore> core_;
  std::uint64_t steps_ = 0;
  std::uint64_t measured_ = 0;
  std::vector<double> steps_s_;
  std::vector<double> stalls_s_;
  std::vector<double> leases_s_;
};

}  // namespace

double MeasureLoad(const OwnedDevice& device, StepLoad* load, double seconds) {
  Require(device.backend->BindThread(device.number));
  const OwnedStream stream(device);
  OwnedEvent begin(device);
  std::vector<OwnedEvent> ends;
  for (std::size_t i = 0; i < kLoadsAhead; ++i) ends.emplace_back(device);
  for (std::size_t i = 0; i < kLoadsAhead; ++i) load->Enqueue(stream);
  begin.Record(stream);
  const std::int64_t begin_ns = device.backend->NowNanos();
  const auto length_ns = static_cast<std::int64_t>(seconds * 1e9);
  std::size_t loads = 0;
  do {
    OwnedEvent& end = ends[loads % kLoadsAhead];
    if (loads >= kLoadsAhead) end.Await();
    load->Enqueue(stream);
    end.Record(stream);
    ++loads;
  } while (device.backend->NowNanos() - begin_ns < length_ns);
  stream.Sync();
  return ends[(loads - 1) % kLoadsAhead].SecondsSince(begin) / static_cast<double>(loads);
}

OverlapResult MeasureOverlap(const OwnedDevice& device, StepLoad* load,
                             const MemoryBatches& batches, double seconds) {
  OverlapResult result;
  result.alone_s = MeasureLoad(device, load, seconds);
  std::atomic<bool> running = false;
  std::atomic<bool> stop = false;
  std::exception_ptr failure;
  {
    std::optional<SignalsBlocked> blocked(std::in_place);
    const std::jthread feeding([&] {
      try {
        MemoryFeedPlan plan;
        plan.seconds = std::numeric_limits<std::int32_t>::max();
        plan.running = &running;
        plan.stop = &stop;
        result.bytes_per_s = RunMemoryFeed(device, batches, plan).bytes_per_s;
      } catch (...) {
        failure = std::current_exception();
        running.store(true, std::memory_order_relaxed);
      }
    });
    blocked.reset();
    try {
      while (!running.load(std::memory_order_relaxed)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      result.beside_s = MeasureLoad(device, load, seconds);
    } catch (...) {
      stop.store(true, std::memory_order_relaxed);
      throw;
    }
    stop.store(true, std::memory_order_relaxed);
  }
  if (failure) std::rethrow_exception(failure);
  return result;
}

StepsResult RunSteps(const OwnedDevice& device, StepLoad* load, const MemoryBatches& batches,
                     const StepsPlan& plan) {
  Require(device.backend->BindThread(device.number));
  return StepLoop(device, load, batches, plan.loads_per_step).Run(plan.seconds);
}

}  // namespace ringfeed::tools
