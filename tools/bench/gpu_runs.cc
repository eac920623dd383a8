#include "tools/bench/gpu_runs.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/machine/cpu_time.h"
#include "base/machine/thread_start.h"
#include "base/quantile.h"
#include "gpu/feed/feed_core.h"
#include "gpu/work_time.h"

namespace ringfeed::tools {
namespace {

constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kSumsAtATime = 4096;
constexpr double kUntilStopped = 1e9;

FeedOptions FeedOptionsFor(const OwnedDevice& device, const MemoryBatches& batches) {
  FeedOptions options;
  options.backend = device.backend;
  options.devices = {device.number};
  options.slots = SlotsFor(batches.batch_bytes());
  options.transfer = TransferPlan::kBatch;
  return options;
}

/// A feed of memory batches, taken one after another.
class MemoryFeedLoop {
 public:
  MemoryFeedLoop(const OwnedDevice& device, const MemoryBatches& batches, bool verify)
      : batches_(batches), stream_(device) {
    FeedDriveOptions drive;
    drive.poison = verify;
    if (verify) sums_ = std::make_unique<CheckedSums>(device, kSumsAtATime);
    core_ = FeedCore::Start(batches.Supply(kEndless), FeedOptionsFor(device, batches), drive);
  }
  ~MemoryFeedLoop() { (void)core_->Close(); }
  MemoryFeedLoop(const MemoryFeedLoop&) = delete;
  MemoryFeedLoop& operator=(const MemoryFeedLoop&) = delete;

  void Take() {
    DeviceLease lease;
    Status status;
    if (core_->TryNext(&lease, &status) != ReadResult::kRecord) throw Error(status);
    const Tensor& tensor = lease.On(stream_.get()).front();
    if (sums_ != nullptr) sums_->Add(stream_, tensor);
    lease.Release();
    ++taken_;
    if (sums_ != nullptr && sums_->full()) Check();
  }
  /// Blocks until all batches that were taken are on the device.
  void AwaitTaken() const { stream_.Sync(); }
  void Check() {
    if (sums_ == nullptr) return;
    for (const std::uint64_t sum : sums_->Collect(stream_)) {
      wrong_ += sum == batches_.ChecksumOf(checked_++) ? 0 : 1;
    }
  }
  std::uint64_t taken() const { return taken_; }
  std::uint64_t wrong() const { return wrong_; }

 private:
  const MemoryBatches& batches_;
  const OwnedStream stream_;
  std::unique_ptr<CheckedSums> sums_;
  std::shared_ptr<FeedCore> core_;
  std::uint64_t taken_ = 0;
  std::uint64_t checked_ = 0;
  std::uint64_t wrong_ = 0;
};

constexpr std::size_t kLoadsAhead = 8;   // enqueued at a time: no wait for the host
constexpr std::size_t kStepsAhead = 64;  // steps with events kept
constexpr std::uint64_t kWarmUpSteps = 16;
constexpr std::size_t kMostSteps = std::size_t{1} << 17;

/// Points in one step: before its batch is there, after that, at its end.
struct StepEvents {
  explicit StepEvents(const OwnedDevice& device) : begin(device), fed(device), end(device) {}
  OwnedEvent begin;
  OwnedEvent fed;
  OwnedEvent end;
};

constexpr int kBareWaits = 200;

// How often the calling thread slept.
std::int64_t SleepsOfThread() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/// The training loop. Its thread never blocks on the device while it runs.
class StepLoop {
 public:
  StepLoop(const OwnedDevice& device, StepLoad* load, const MemoryBatches& batches,
           const StepsPlan& plan)
      : device_(device),
        load_(load),
        batches_(batches),
        plan_(plan),
        stream_(device),
        sums_(device, kMostSteps) {
    for (std::size_t i = 0; i < kStepsAhead; ++i) events_.emplace_back(device);
    core_ = FeedCore::Start(batches.Supply(kEndless), FeedOptionsFor(device, batches));
  }
  ~StepLoop() { (void)core_->Close(); }
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  StepsResult Run() {
    for (std::uint64_t i = 0; i < kWarmUpSteps; ++i) Step();
    while (measured_ < steps_) Measure();
    result_ = {};
    const BackendCounters before = device_.backend->Counters();
    const std::int64_t begin_ns = device_.backend->NowNanos();
    const auto length_ns = static_cast<std::int64_t>(plan_.seconds * 1e9);
    do {
      Step();
    } while (device_.backend->NowNanos() - begin_ns < length_ns && !sums_.full());
    while (measured_ < steps_) Measure();
    const std::int64_t wall_ns = device_.backend->NowNanos() - begin_ns;
    const BackendCounters after = device_.backend->Counters();
    result_.wall_per_step_s =
        static_cast<double>(wall_ns) / 1e9 / static_cast<double>(result_.steps());
    result_.host_syncs = after.syncs - before.syncs;
    result_.allocations = after.allocations - before.allocations;
    std::uint64_t number = 0;
    for (const std::uint64_t sum : sums_.Collect(stream_)) {
      result_.wrong += sum == batches_.ChecksumOf(number++) ? 0 : 1;
    }
    return std::move(result_);
  }

 private:
  void Step() {
    if (steps_ - measured_ == kStepsAhead) Measure();
    StepEvents& events = events_[steps_ % kStepsAhead];
    events.begin.Record(stream_);
    DeviceLease lease;
    Status status;
    const std::int64_t slept = SleepsOfThread();
    const double before_s = ThreadCpuSeconds();
    if (core_->TryNext(&lease, &status) != ReadResult::kRecord) throw Error(status);
    const double next_s = ThreadCpuSeconds();
    const Tensor& tensor = lease.On(stream_.get()).front();
    const double taken_s = ThreadCpuSeconds();
    result_.sleeps += SleepsOfThread() - slept;
    events.fed.Record(stream_);
    sums_.Add(stream_, tensor);
    for (std::uint64_t i = 0; i < plan_.loads_per_step; ++i) load_->Enqueue(stream_);
    events.end.Record(stream_);
    const double computed_s = ThreadCpuSeconds();
    lease.Release();
    const double released_s = ThreadCpuSeconds();
    result_.next_s.push_back(next_s - before_s);
    result_.on_s.push_back(taken_s - next_s);
    result_.release_s.push_back(released_s - computed_s);
    result_.lease_s.push_back(released_s - computed_s + taken_s - before_s);
    ++steps_;
    if (plan_.waits_for_device) Measure();
  }

  // The oldest step whose events are not read yet.
  void Measure() {
    const StepEvents& events = events_[measured_ % kStepsAhead];
    events.end.Await();
    result_.stalls_s.push_back(events.fed.SecondsSince(events.begin));
    result_.steps_s.push_back(events.end.SecondsSince(events.fed));
    ++measured_;
  }

  const OwnedDevice& device_;
  StepLoad* const load_;
  const MemoryBatches& batches_;
  const StepsPlan plan_;
  const OwnedStream stream_;
  CheckedSums sums_;
  std::vector<StepEvents> events_;
  std::shared_ptr<FeedCore> core_;
  std::uint64_t steps_ = 0;
  std::uint64_t measured_ = 0;
  StepsResult result_;
};

}  // namespace

std::vector<CopyPiece> PinnedPieces(HostPins* pins, const std::byte* from, std::size_t bytes,
                                    std::byte* to) {
  std::vector<CopyPiece> pieces;
  for (std::size_t done = 0; done < bytes;) {
    const HostPins::Part part = pins->Pin(from + done, bytes - done);
    if (!part.pinned) {
      throw Error(Status(StatusCode::kResourceExhausted,
                         "the batches' memory cannot be registered: " + pins->failure()));
    }
    pieces.push_back({to + done, from + done, part.bytes});
    done += part.bytes;
  }
  return pieces;
}

double CopyPeak(const OwnedDevice& device, HostPins* pins, const MemoryBatches& batches) {
  const OwnedMemory to(device, batches.batch_bytes());
  const OwnedStream stream(device);
  std::vector<CopyPiece> pieces;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const Tensor& from = batches.batch(b).front();
    const auto parts = PinnedPieces(pins, from.data, from.bytes, to.data());
    pieces.insert(pieces.end(), parts.begin(), parts.end());
  }
  const WorkTime time = MeasureWork(device, stream, {}, [&](std::size_t) {
    for (const CopyPiece& piece : pieces) {
      Require(device.backend->CopyToDevice(stream.get(), piece.to, piece.from, piece.bytes));
    }
  });
  return static_cast<double>(batches.size() * batches.batch_bytes()) / time.device_s;
}

std::size_t SlotsFor(std::size_t batch_bytes) {
  return std::clamp<std::size_t>((std::size_t{32} << 20) / batch_bytes, 4, 16);
}

MemoryFeedResult RunMemoryFeed(const OwnedDevice& device, const MemoryBatches& batches,
                               const MemoryFeedPlan& plan) {
  Require(device.backend->BindThread(device.number));
  MemoryFeedLoop loop(device, batches, plan.verify);
  for (std::size_t b = 0; b < 2 * SlotsFor(batches.batch_bytes()); ++b) loop.Take();
  // As many batches are in flight beyond the last one at both ends.
  loop.AwaitTaken();
  const std::uint64_t warm = loop.taken();
  if (plan.running != nullptr) plan.running->store(true, std::memory_order_relaxed);
  const std::int64_t begin_ns = device.backend->NowNanos();
  const double begin_cpu_s = ProcessCpuSeconds();
  const auto length_ns = static_cast<std::int64_t>(plan.seconds * 1e9);
  std::int64_t passed_ns = 0;
  const auto stopped = [&] {
    return plan.stop != nullptr && plan.stop->load(std::memory_order_relaxed);
  };
  do {
    loop.Take();
    passed_ns = device.backend->NowNanos() - begin_ns;
  } while (passed_ns < length_ns && !stopped());
  loop.AwaitTaken();
  passed_ns = device.backend->NowNanos() - begin_ns;
  const double cpu_s = ProcessCpuSeconds() - begin_cpu_s;
  loop.Check();
  const auto bytes = static_cast<double>((loop.taken() - warm) * batches.batch_bytes());
  MemoryFeedResult result;
  result.batches = loop.taken();
  result.wrong = loop.wrong();
  result.bytes_per_s = bytes / (static_cast<double>(passed_ns) / 1e9);
  result.cpu_s_per_gb = cpu_s / (bytes / 1e9);
  return result;
}

std::vector<MemoryFeedResult> RunMemoryFeeds(std::span<const OwnedDevice> devices,
                                             const MemoryBatches& batches, double seconds) {
  std::vector<MemoryFeedResult> results(devices.size());
  std::vector<std::exception_ptr> failures(devices.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      threads.push_back(StartThread("a device's loop", [&, i] {
        try {
          results[i] = RunMemoryFeed(devices[i], batches, {.seconds = seconds, .verify = true});
        } catch (...) {
          failures[i] = std::current_exception();
        }
      }));
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return results;
}

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
    const std::jthread feeding = StartThread("the feed's loop", [&] {
      try {
        const MemoryFeedPlan plan{.seconds = kUntilStopped, .running = &running, .stop = &stop};
        result.bytes_per_s = RunMemoryFeed(device, batches, plan).bytes_per_s;
      } catch (...) {
        failure = std::current_exception();
        running.store(true, std::memory_order_relaxed);
      }
    });
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
  return StepLoop(device, load, batches, plan).Run();
}

double BareWaitSeconds(double interval_s) {
  std::mutex mutex;
  std::condition_variable changed;
  int there = 0;
  std::vector<double> waits_s;
  const std::jthread waking = StartThread("a thread that wakes", [&] {
    for (int i = 0; i < kBareWaits; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
      const std::lock_guard lock(mutex);
      ++there;
      changed.notify_one();
    }
  });
  for (int i = 0; i < kBareWaits; ++i) {
    const double before_s = ThreadCpuSeconds();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return there > i; });
    lock.unlock();
    waits_s.push_back(ThreadCpuSeconds() - before_s);
  }
  return QuantileOf(waits_s, 0.5);
}

}  // namespace ringfeed::tools
