// What the host pays for a call: the time until it returns.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/cpu_time.h"
#include "base/quantile.h"
#include "bench/device_limits_parts.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kCopyBytes = 4 * kKiB;
constexpr std::size_t kAllocatedBytes = 4 * kMiB;
constexpr std::size_t kTokens = 512;
constexpr std::int64_t kHeldNs = 20'000'000;
// Fewer than a stream takes before enqueueing waits for room in it.
constexpr std::size_t kAtATime = 128;

/// Times of single calls.
class Samples {
 public:
  explicit Samples(const LimitsRun& run)
      : run_(run),
        end_ns_(run.backend().NowNanos() + static_cast<std::int64_t>(run.seconds() * 1e9)) {}

  /// Whether there are enough, or as many as the time allows.
  bool done() const {
    const std::size_t most = run_.emulated() ? 1000 : 20'000;
    return us_.size() >= most || (us_.size() >= 32 && run_.backend().NowNanos() > end_ns_);
  }
  template <typename Call>
  void Take(const Call& call) {
    const std::int64_t begin_ns = run_.backend().NowNanos();
    call();
    us_.push_back(static_cast<double>(run_.backend().NowNanos() - begin_ns) / 1e3);
  }
  std::size_t size() const { return us_.size(); }
  void DropLast() { us_.pop_back(); }
  void Tell(Json* row) const {
    (*row)["median_us"] = QuantileOf(us_, 0.5);
    (*row)["p99_us"] = QuantileOf(us_, 0.99);
    (*row)["samples"] = us_.size();
  }

 private:
  const LimitsRun& run_;
  const std::int64_t end_ns_;
  std::vector<double> us_;
};

class Calls {
 public:
  explicit Calls(LimitsRun* run)
      : run_(*run),
        host_(kMiB, Pages::kSmall),
        device_(run->device(), kMiB),
        stream_(run->device()),
        other_stream_(run->device()) {
    host_.FillRandom(3);
    registered_.emplace_back(*run, host_);
    Copy(0, kMiB);
    stream_.Sync();
  }

  void Measure(LimitsRun* run) {
    run->Row("clock", [this](Json* row) { Sampled(row, [] {}); });
    run->Row("record", [this](Json* row) { Record(row); });
    run->Row("query_done", [this](Json* row) { QueryDone(row); });
    run->Row("query_not_done", [this](Json* row) { QueryNotDone(row); });
    run->Row("stream_wait_done", [this](Json* row) { StreamWaitDone(row); });
    run->Row("stream_wait_not_done", [this](Json* row) { StreamWaitNotDone(row); });
    run->Row("copy_to_device_4_kib", [this](Json* row) { CopyToDevice(row); });
    run->Row("launch_widen", [this](Json* row) { LaunchWiden(row); });
    run->Row("launch_checksum", [this](Json* row) { LaunchChecksum(row); });
    run->Row("create_destroy_event", [this](Json* row) { MakeEvent(row); });
    run->Row("alloc_free_4_mib", [this](Json* row) { AllocFree(row); });
  }

 private:
  void Copy(std::size_t place, std::size_t bytes) const {
    Require(run_.backend().CopyToDevice(stream_.get(), device_.data() + place, host_.data() + place,
                                        bytes));
  }

  /// Calls in a row; what they enqueue is waited for in between.
  template <typename Call>
  void Sampled(Json* row, const Call& call) const {
    Samples samples(run_);
    while (!samples.done()) {
      for (std::size_t i = 0; i < kAtATime; ++i) samples.Take(call);
      stream_.Sync();
    }
    samples.Tell(row);
  }

  void Record(Json* row) const {
    const PlainEvent event(run_);
    Sampled(row, [&] { event.Record(stream_); });
    if (!event.IsDone()) FailVerification("an event is not done behind a sync");
  }

  void QueryDone(Json* row) const {
    const PlainEvent event(run_);
    event.Record(stream_);
    stream_.Sync();
    bool all_done = true;
    Sampled(row, [&] { all_done = event.IsDone() && all_done; });
    if (!all_done) FailVerification("an event is not done behind a sync");
  }

  void QueryNotDone(Json* row) const {
    const PlainEvent event(run_);
    Samples samples(run_);
    while (!samples.done()) {
      Require(run_.backend().Busy(stream_.get(), kHeldNs));
      event.Record(stream_);
      const std::size_t before = samples.size();
      for (bool done = false; !done;) samples.Take([&] { done = event.IsDone(); });
      samples.DropLast();
      if (samples.size() == before) FailVerification("a device that is kept busy is done at once");
    }
    samples.Tell(row);
  }

  void StreamWaitDone(Json* row) const {
    const PlainEvent event(run_);
    event.Record(other_stream_);
    other_stream_.Sync();
    Sampled(row, [&] { Require(run_.backend().StreamWait(stream_.get(), event.get())); });
  }

  void StreamWaitNotDone(Json* row) const {
    const PlainEvent event(run_);
    const PlainEvent behind(run_);
    Samples samples(run_);
    while (!samples.done()) {
      Require(run_.backend().Busy(other_stream_.get(), kHeldNs));
      event.Record(other_stream_);
      for (std::size_t i = 0; i < kAtATime; ++i) {
        samples.Take([&] { Require(run_.backend().StreamWait(stream_.get(), event.get())); });
      }
      behind.Record(stream_);
      // In this order: one that is done may get done between the two looks.
      const bool passed = behind.IsDone();
      if (passed && !event.IsDone()) FailVerification("a stream does not wait");
      stream_.Sync();
    }
    samples.Tell(row);
  }

  void CopyToDevice(Json* row) const {
    Require(run_.backend().Fill(stream_.get(), device_.data(), std::byte{0xA5}, kMiB));
    std::size_t place = 0;
    Sampled(row, [&] {
      Copy(place, kCopyBytes);
      place = (place + kCopyBytes) % (kMiB / 2);
    });
    // All places were copied to by two times of Sampled's.
    RequireChecksum(run_, stream_, device_.data(), kCopyBytes * kAtATime,
                    HostChecksum(host_.data(), kCopyBytes * kAtATime));
    (*row)["verified"] = true;
  }

  void LaunchWiden(Json* row) const {
    const OwnedMemory wide(run_.device(), kTokens * sizeof(std::int64_t));
    Copy(0, kMiB);
    Sampled(row, [&] {
      Require(run_.backend().Launch(
          stream_.get(), WidenTokens{device_.data(), wide.data(), kTokens, DType::kInt64}));
    });
    std::vector<std::int64_t> expected(kTokens);
    auto* const place = reinterpret_cast<std::byte*>(expected.data());
    RunKernelOnHost(WidenTokens{host_.data(), place, kTokens, DType::kInt64});
    const std::size_t bytes = kTokens * sizeof(std::int64_t);
    RequireChecksum(run_, stream_, wide.data(), bytes, HostChecksum(place, bytes));
    (*row)["verified"] = true;
  }

  void LaunchChecksum(Json* row) const {
    const OwnedMemory sum(run_.device(), sizeof(std::uint64_t));
    auto* const place = reinterpret_cast<std::uint64_t*>(sum.data());
    Copy(0, kMiB);
    Sampled(row, [&] {
      Require(run_.backend().Launch(stream_.get(), Checksum{device_.data(), kCopyBytes, place}));
    });
    std::uint64_t found = 0;
    Require(run_.backend().CopyToHost(stream_.get(), reinterpret_cast<std::byte*>(&found),
                                      sum.data(), sizeof(found)));
    stream_.Sync();
    if (found != HostChecksum(host_.data(), kCopyBytes)) {
      FailVerification("the device has another checksum than the host");
    }
    (*row)["verified"] = true;
  }

  void MakeEvent(Json* row) const {
    Sampled(row, [this] { const PlainEvent event(run_); });
  }

  void AllocFree(Json* row) const {
    Sampled(row, [this] { const OwnedMemory memory(run_.device(), kAllocatedBytes); });
  }

  const LimitsRun& run_;
  const HostMemory host_;
  const OwnedMemory device_;
  const OwnedStream stream_;
  const OwnedStream other_stream_;
  std::vector<Registered> registered_;
};

}  // namespace

void MeasureCalls(LimitsRun* run) { Calls(run).Measure(run); }

}  // namespace ringfeed::bench
