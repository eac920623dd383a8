#include "tools/bench/gpu_copies.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "gpu/feed/feed_core.h"
#include "tools/inspect/checked_sums.h"
#include "tools/process_usage.h"

namespace ringfeed::tools {
namespace {

constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kSumsAtATime = 4096;

// What is copied: parts that lie within what was registered at once.
std::vector<CopyPiece> PinnedPieces(HostPins* pins, const Tensor& from, std::byte* to) {
  std::vector<CopyPiece> pieces;
  for (std::size_t done = 0; done < from.bytes;) {
    const HostPins::Part part = pins->Pin(from.data + done, from.bytes - done);
    if (!part.pinned) {
      throw Error(Status(StatusCode::kResourceExhausted,
                         "the batches' memory cannot be registered: " + pins->failure()));
    }
    pieces.push_back({to + done, from.data + done, part.bytes});
    done += part.bytes;
  }
  return pieces;
}

/// A feed of memory batches, taken one after another.
class MemoryFeedLoop {
 public:
  MemoryFeedLoop(const OwnedDevice& device, const MemoryBatches& batches, bool verify)
      : batches_(batches), stream_(device) {
    FeedOptions options;
    options.backend = device.backend;
    options.devices = {device.number};
    options.slots = SlotsFor(batches.batch_bytes());
    FeedDriveOptions drive;
    drive.poison = verify;
    if (verify) sums_ = std::make_unique<CheckedSums>(device, kSumsAtATime);
    core_ = FeedCore::Start(batches.Supply(kEndless), options, drive);
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

}  // namespace

double CopyPeak(const OwnedDevice& device, HostPins* pins, const MemoryBatches& batches) {
  constexpr std::int64_t kHoldBackNs = 2'000'000;
  constexpr std::int64_t kHoldBackEachNs = 20'000;
  const OwnedMemory to(device, batches.batch_bytes());
  const OwnedStream stream(device);
  OwnedEvent begin(device);
  OwnedEvent end(device);
  std::vector<CopyPiece> pieces;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    for (const CopyPiece& piece : PinnedPieces(pins, batches.batch(b).front(), to.data())) {
      pieces.push_back(piece);
    }
  }
  const auto copies = static_cast<std::int64_t>(batches.size());
  Require(device.backend->Busy(stream.get(), kHoldBackNs + copies * kHoldBackEachNs));
  begin.Record(stream);
  std::size_t bytes = 0;
  for (const CopyPiece& piece : pieces) {
    Require(device.backend->CopyToDevice(stream.get(), piece.to, piece.from, piece.bytes));
    bytes += piece.bytes;
  }
  end.Record(stream);
  stream.Sync();
  return static_cast<double>(bytes) / end.SecondsSince(begin);
}

std::size_t SlotsFor(std::size_t batch_bytes) {
  return std::clamp<std::size_t>((std::size_t{32} << 20) / batch_bytes, 4, 16);
}

MemoryFeedResult RunMemoryFeed(const OwnedDevice& device, const MemoryBatches& batches,
                               const MemoryFeedPlan& plan) {
  Require(device.backend->BindThread(device.number));
  MemoryFeedLoop loop(device, batches, plan.verify);
  for (std::size_t b = 0; b < 2 * SlotsFor(batches.batch_bytes()); ++b) loop.Take();
  // What is on its way beyond the last batch is the same at both ends.
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

}  // namespace ringfeed::tools
