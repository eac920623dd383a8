// What a lease costs: Next + On + Release of a feed onto emulated devices in real time, beside a
// mutex queue that hands over pointers to the same copies. Batches are in memory and the link is
// never the limit. Both hold the checksums that the device took against the host's.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/machine/cpu_time.h"
#include "bench/loops.h"
#include "bench/mutex_queue.h"
#include "gpu/feed/feed_core.h"
#include "gpu/feed/memory_batches.h"
#include "gpu/owned_handles.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kBatchBytes = 4096;
constexpr std::size_t kBatches = 64;
constexpr std::size_t kSlots = 8;

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

void RequireTurn(std::uint64_t number, std::uint64_t due) {
  if (number != due) throw Error(Status(StatusCode::kInternal, "batches in another order"));
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
    Require(devices_->BindThread(0));
    Require(devices_->CreateStream(0, StreamPriority::kNormal, &stream_));
  }
  ~LeaseLoop() { (void)devices_->DestroyStream(stream_); }
  LeaseLoop(const LeaseLoop&) = delete;
  LeaseLoop& operator=(const LeaseLoop&) = delete;

  /// The device's checksums of the next batches against the host's.
  bool Verify(std::uint64_t count) {
    std::byte* memory = nullptr;
    std::vector<std::uint64_t> taken(count);
    Require(devices_->AllocDevice(0, count * sizeof(std::uint64_t), &memory));
    auto* const sums = reinterpret_cast<std::uint64_t*>(memory);
    const std::uint64_t first = next_;
    for (std::uint64_t i = 0; i < count; ++i) {
      DeviceLease lease = Next();
      const Tensor& tensor = lease.On(stream_).front();
      Require(devices_->Launch(stream_, Checksum{tensor.data, tensor.bytes, sums + i}));
    }
    Require(devices_->CopyToHost(stream_, reinterpret_cast<std::byte*>(taken.data()), memory,
                                 count * sizeof(std::uint64_t)));
    Require(devices_->SyncStream(stream_));
    Require(devices_->FreeDevice(0, memory));
    for (std::uint64_t i = 0; i < count; ++i) {
      if (taken[i] != Batches().ChecksumOf(first + i)) return false;
    }
    return true;
  }

  // In what the host does not wait in: the step that the device computes. Whoever copies a batch
  // has handed over the one before; one copy was that of the checksums.
  void AwaitNext() const {
    while (devices_->Counters().copies < next_ + 3) std::this_thread::yield();
  }
  void Take() {
    DeviceLease lease = Next();
    (void)lease.On(stream_);
  }

 private:
  DeviceLease Next() {
    DeviceLease lease;
    Status status;
    if (core_->TryNext(&lease, &status) != ReadResult::kRecord) throw Error(status);
    RequireTurn(lease.number(), next_++);
    return lease;
  }

  std::shared_ptr<EmulatedDevices> devices_;
  std::shared_ptr<FeedCore> core_;
  DeviceStream stream_;
  std::uint64_t next_ = 0;
};

/// The baseline: a thread copies batches into free buffers and hands over pointers, by two mutex
/// queues. Nothing orders streams, nothing can fail.
class MutexLoop {
 public:
  explicit MutexLoop(std::uint64_t batches) : buffers_(kSlots) {
    for (Buffer& buffer : buffers_) free_.Push(&buffer);
    copier_ = std::jthread([this, batches] { Copy(batches); });
  }

  ~MutexLoop() { free_.Close(); }
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
  void AwaitNext() const {
    while (copied_.load(std::memory_order_relaxed) < next_ + 2) std::this_thread::yield();
  }
  void Take() { free_.Push(Next()); }

 private:
  struct Buffer {
    std::uint64_t number = 0;
    alignas(64) std::byte data[kBatchBytes];
  };

  void Copy(std::uint64_t batches) {
    for (std::uint64_t b = 0; b < batches; ++b) {
      Buffer* buffer = nullptr;
      if (!free_.Pop(buffer)) return;
      buffer->number = b;
      std::memcpy(buffer->data, Batches().batch(b % kBatches)[0].data, kBatchBytes);
      full_.Push(buffer);
      copied_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Buffer* Next() {
    Buffer* buffer = nullptr;
    full_.Pop(buffer);
    RequireTurn(buffer->number, next_++);
    return buffer;
  }

  std::vector<Buffer> buffers_;
  MutexQueue<Buffer*> free_{kSlots};
  MutexQueue<Buffer*> full_{kSlots};
  std::atomic<std::uint64_t> copied_{0};
  std::uint64_t next_ = 0;
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

// Batches that wait for their consumer: what the calls themselves take.
template <typename Loop>
LoopResult Ready() {
  const std::uint64_t checked = 2 * kBatches;
  const std::uint64_t leases = Sized(20'000, 200);
  Loop loop(checked + leases + kSlots);
  LoopResult result;
  result.records = leases;
  if (!loop.Verify(checked)) result.failure = "the device has other bytes than the host";
  // Each batch is taken when it is there, as a loop does whose steps take longer than copies.
  std::int64_t calls_ns = 0;
  for (std::uint64_t i = 0; i < leases; ++i) {
    loop.AwaitNext();
    const std::int64_t begin_ns = ThreadCpuNanos();
    loop.Take();
    calls_ns += ThreadCpuNanos() - begin_ns;
  }
  const auto clock_ns = ClockCostNanos() * static_cast<std::int64_t>(leases);
  result.cpu_s = static_cast<double>(std::max(calls_ns - clock_ns, std::int64_t{0})) / 1e9;
  return result;
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  const Measure us{"us of CPU", [](const LoopResult& r) {
                     return r.cpu_s * 1e6 / static_cast<double>(r.records);
                   }};
  return {{{{"feed.lease_cpu", us}}, []() -> Pair {
             return {Ready<LeaseLoop>, Ready<MutexLoop>, nullptr, false};
           }}};
}

}  // namespace ringfeed::bench
