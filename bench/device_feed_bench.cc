// What a lease costs: Next + On + Release of a feed onto emulated devices in real time, beside a
// mutex queue that hands over pointers to the same copies. Batches are in memory and the link is
// never the limit. Every case holds the checksums that the device took against the host's.
//
//   device_feed_bench                the cases, as Google Benchmark runs them
//   device_feed_bench --rows-json=N  the rows, a line of JSON for each of N repetitions, ours and
//                                    the baseline in turn

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/cpu_time.h"
#include "gpu/feed/feed_core.h"
#include "gpu/feed/memory_batches.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kBatchBytes = 4096;
constexpr std::size_t kBatches = 64;
constexpr std::size_t kSlots = 8;

bool Smoke() { return std::getenv("RINGFEED_BENCH_SMOKE") != nullptr; }
std::uint64_t Leases() { return Smoke() ? 200 : 20'000; }

/// What one batch cost.
struct Figure {
  double consumer_us = 0;  ///< CPU of the thread that takes batches
  double process_us = 0;   ///< CPU of all threads
  bool verified = false;
};

double MicrosEach(std::int64_t nanos, std::uint64_t count) {
  return static_cast<double>(nanos) / 1e3 / static_cast<double>(count);
}

const MemoryBatches& Batches() {
  static const MemoryBatches batches(kBatchBytes, kBatches);
  return batches;
}

EmulatedOptions FastDevice() {
  EmulatedOptions options;
  options.devices[0].link_bytes_per_s = 1e15;
  options.devices[0].copy_latency_ns = 0;
  return options;
}

/// A training loop over a feed of its own.
class LeaseLoop {
 public:
  explicit LeaseLoop(std::uint64_t batches) : devices_(EmulatedDevices::Open(FastDevice())) {
    FeedOptions options;
    options.backend = devices_;
    options.devices = {0};
    options.slots = kSlots;
    core_ = FeedCore::Start(Batches().Supply(batches), options);
    Must(devices_->BindThread(0));
    Must(devices_->CreateStream(0, StreamPriority::kNormal, &stream_));
  }
  ~LeaseLoop() { (void)devices_->DestroyStream(stream_); }
  LeaseLoop(const LeaseLoop&) = delete;
  LeaseLoop& operator=(const LeaseLoop&) = delete;

  /// The device's checksums of the next batches against the host's.
  bool Verify(std::uint64_t count) {
    std::byte* memory = nullptr;
    std::vector<std::uint64_t> taken(count);
    Must(devices_->AllocDevice(0, count * sizeof(std::uint64_t), &memory));
    auto* const sums = reinterpret_cast<std::uint64_t*>(memory);
    const std::uint64_t first = next_;
    for (std::uint64_t i = 0; i < count; ++i) {
      DeviceLease lease = Next();
      const Tensor& tensor = lease.On(stream_).front();
      Must(devices_->Launch(stream_, Checksum{tensor.data, tensor.bytes, sums + i}));
    }
    Must(devices_->CopyToHost(stream_, reinterpret_cast<std::byte*>(taken.data()), memory,
                              count * sizeof(std::uint64_t)));
    Must(devices_->SyncStream(stream_));
    Must(devices_->FreeDevice(0, memory));
    for (std::uint64_t i = 0; i < count; ++i) {
      if (taken[i] != Batches().ChecksumOf(first + i)) return false;
    }
    return true;
  }

  /// Takes batches one after another, each as soon as it may.
  void TakeAll(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      DeviceLease lease = Next();
      (void)lease.On(stream_);
    }
  }

  /// Takes each batch when it is there, as a loop does whose steps take longer than copies. Returns
  /// the CPU time of the calls alone.
  std::int64_t TakeReady(std::uint64_t count) {
    std::int64_t calls_ns = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      // Whoever copies a batch has handed over the one before; one copy was that of the checksums.
      AwaitCopies(next_ + 3);
      const std::int64_t begin_ns = ThreadCpuNanos();
      {
        DeviceLease lease = Next();
        (void)lease.On(stream_);
      }
      calls_ns += ThreadCpuNanos() - begin_ns;
    }
    return calls_ns;
  }

  bool in_order() const { return next_ == in_turn_; }

 private:
  static void Must(const Status& status) {
    if (!status.ok()) throw Error(status);
  }
  DeviceLease Next() {
    DeviceLease lease;
    Status status;
    if (core_->TryNext(&lease, &status) != ReadResult::kRecord) throw Error(status);
    if (lease.number() == next_) ++in_turn_;
    ++next_;
    return lease;
  }
  // By what the host does not wait in: the step that the device computes.
  void AwaitCopies(std::uint64_t count) const {
    while (devices_->Counters().copies < count) std::this_thread::yield();
  }

  std::shared_ptr<EmulatedDevices> devices_;
  std::shared_ptr<FeedCore> core_;
  DeviceStream stream_;
  std::uint64_t next_ = 0;
  std::uint64_t in_turn_ = 0;  ///< batches with the number that was due
};

// What everyone writes first.
template <typename Item>
class MutexQueue {
 public:
  void Push(Item item) {
    std::unique_lock lock(mutex_);
    items_.push_back(std::move(item));
    lock.unlock();
    not_empty_.notify_one();
  }
  Item Pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return !items_.empty(); });
    Item item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<Item> items_;
};

/// The baseline: a thread copies batches into free buffers and hands over pointers, by two mutex
/// queues. Nothing orders streams, nothing can fail.
class MutexLoop {
 public:
  explicit MutexLoop(std::uint64_t batches) : buffers_(kSlots) {
    for (Buffer& buffer : buffers_) free_.Push(&buffer);
    copier_ = std::jthread([this, batches] { Copy(batches); });
  }

  ~MutexLoop() { free_.Push(nullptr); }
  MutexLoop(const MutexLoop&) = delete;
  MutexLoop& operator=(const MutexLoop&) = delete;

  bool Verify(std::uint64_t count) {
    bool same = true;
    for (std::uint64_t i = 0; i < count; ++i) {
      Buffer* const buffer = Next();
      std::uint64_t sum = 0;
      RunKernelOnHost(Checksum{buffer->data, kBatchBytes, &sum});
      same = same && sum == Batches().ChecksumOf(buffer->number);
      free_.Push(buffer);
    }
    return same;
  }
  void TakeAll(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) free_.Push(Next());
  }
  std::int64_t TakeReady(std::uint64_t count) {
    std::int64_t calls_ns = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      while (copied_.load(std::memory_order_relaxed) < next_ + 2) std::this_thread::yield();
      const std::int64_t begin_ns = ThreadCpuNanos();
      free_.Push(Next());
      calls_ns += ThreadCpuNanos() - begin_ns;
    }
    return calls_ns;
  }
  bool in_order() const { return next_ == in_turn_; }

 private:
  struct Buffer {
    std::uint64_t number = 0;
    alignas(64) std::byte data[kBatchBytes];
  };

  void Copy(std::uint64_t batches) {
    for (std::uint64_t b = 0; b < batches; ++b) {
      Buffer* const buffer = free_.Pop();
      if (buffer == nullptr) return;
      buffer->number = b;
      std::memcpy(buffer->data, Batches().batch(b % kBatches)[0].data, kBatchBytes);
      full_.Push(buffer);
      copied_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Buffer* Next() {
    Buffer* const buffer = full_.Pop();
    if (buffer->number == next_) ++in_turn_;
    ++next_;
    return buffer;
  }

  std::vector<Buffer> buffers_;
  MutexQueue<Buffer*> free_;
  MutexQueue<Buffer*> full_;
  std::atomic<std::uint64_t> copied_{0};
  std::uint64_t next_ = 0;
  std::uint64_t in_turn_ = 0;
  std::jthread copier_;  ///< ends before what it uses
};

// What reading the clock twice adds to every measured piece.
std::int64_t ClockCostNanos() {
  constexpr int kTimes = 2000;
  std::int64_t cost_ns = 0;
  for (int i = 0; i < kTimes; ++i) {
    const std::int64_t begin_ns = ThreadCpuNanos();
    cost_ns += ThreadCpuNanos() - begin_ns;
  }
  return cost_ns / kTimes;
}

/// Batches that wait for their consumer: what the calls themselves take.
template <typename Loop>
Figure Ready() {
  const std::uint64_t checked = 2 * kBatches;
  Loop loop(checked + Leases() + kSlots);
  Figure figure;
  figure.verified = loop.Verify(checked);
  const std::int64_t process_ns = ProcessCpuNanos();
  const std::int64_t calls_ns = loop.TakeReady(Leases());
  figure.process_us = MicrosEach(ProcessCpuNanos() - process_ns, Leases());
  const auto clock_ns = ClockCostNanos() * static_cast<std::int64_t>(Leases());
  figure.consumer_us = MicrosEach(std::max(calls_ns - clock_ns, std::int64_t{0}), Leases());
  figure.verified = figure.verified && loop.in_order();
  return figure;
}

/// A consumer that waits for every batch: calls, waits, and all other threads.
template <typename Loop>
Figure FlatOut() {
  const std::uint64_t checked = 2 * kBatches;
  Loop loop(checked + Leases() + kSlots);
  Figure figure;
  figure.verified = loop.Verify(checked);
  const std::int64_t process_ns = ProcessCpuNanos();
  const std::int64_t thread_ns = ThreadCpuNanos();
  loop.TakeAll(Leases());
  figure.consumer_us = MicrosEach(ThreadCpuNanos() - thread_ns, Leases());
  figure.process_us = MicrosEach(ProcessCpuNanos() - process_ns, Leases());
  figure.verified = figure.verified && loop.in_order();
  return figure;
}

template <Figure (*kMeasure)()>
void Case(benchmark::State& state) {
  for (auto _ : state) {
    const Figure figure = kMeasure();
    if (!figure.verified) state.SkipWithError("the device has other bytes than the host");
    state.SetIterationTime(figure.consumer_us * 1e-6);
    state.counters["consumer_us"] = figure.consumer_us;
    state.counters["process_us"] = figure.process_us;
  }
}

// Each is as many leases as a figure takes.
BENCHMARK(Case<Ready<LeaseLoop>>)->UseManualTime()->Iterations(1);
BENCHMARK(Case<Ready<MutexLoop>>)->UseManualTime()->Iterations(1);
BENCHMARK(Case<FlatOut<LeaseLoop>>)->UseManualTime()->Iterations(1);
BENCHMARK(Case<FlatOut<MutexLoop>>)->UseManualTime()->Iterations(1);

// The rows.

void PrintRow(const char* name, double ours, double baseline, bool verified) {
  std::printf(
      "{\"name\":\"%s\",\"ours\":%.6g,\"baseline\":%.6g,\"unit\":\"us of CPU\","
      "\"verified\":%s}\n",
      name, ours, baseline, verified ? "true" : "false");
  std::fflush(stdout);
}

bool Rows(int repetitions) {
  bool verified = true;
  for (int i = 0; i < repetitions; ++i) {
    const Figure ready = Ready<LeaseLoop>();
    const Figure mutex_ready = Ready<MutexLoop>();
    const Figure flat_out = FlatOut<LeaseLoop>();
    const Figure mutex_flat_out = FlatOut<MutexLoop>();
    const bool good = ready.verified && mutex_ready.verified;
    const bool all_good = flat_out.verified && mutex_flat_out.verified;
    PrintRow("feed.lease_cpu", ready.consumer_us, mutex_ready.consumer_us, good);
    PrintRow("feed.lease_waiting_cpu", flat_out.consumer_us, mutex_flat_out.consumer_us, all_good);
    PrintRow("feed.lease_process_cpu", flat_out.process_us, mutex_flat_out.process_us, all_good);
    verified = verified && good && all_good;
  }
  return verified;
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  constexpr std::string_view kRowsJson = "--rows-json=";
  if (argc == 2 && std::string_view(argv[1]).starts_with(kRowsJson)) {
    const int repetitions = std::atoi(argv[1] + kRowsJson.size());
    return ringfeed::bench::Rows(repetitions) ? 0 : 1;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
