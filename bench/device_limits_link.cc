// Host memory and the link: what registering costs, and how fast copies are by their size.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/quantile.h"
#include "bench/device_limits_parts.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kChunkBytes = 64 * kMiB;  // as the feed registers
constexpr double kGiB = 1024.0 * static_cast<double>(kMiB);
constexpr std::byte kStale{0xA5};

double MsSince(const LimitsRun& run, std::int64_t begin_ns) {
  return static_cast<double>(run.backend().NowNanos() - begin_ns) / 1e6;
}

/// How memory is before it is registered.
struct MemoryKind {
  const char* name = nullptr;
  Pages pages = Pages::kSmall;
  bool populated = true;
};
constexpr std::array kMemoryKinds = {
    MemoryKind{"small_pages", Pages::kSmall, true},
    MemoryKind{"huge_pages", Pages::kHuge, true},
    MemoryKind{"small_not_populated", Pages::kSmall, false},
    MemoryKind{"huge_not_populated", Pages::kHuge, false},
};

/// Whether a copy from there leaves the host alone while the stream is held back.
bool IsAsynchronous(const LimitsRun& run, const OwnedStream& stream, std::byte* to,
                    const std::byte* from) {
  constexpr std::int64_t kHeldNs = 50'000'000;
  Require(run.backend().Busy(stream.get(), kHeldNs));
  const std::int64_t begin_ns = run.backend().NowNanos();
  Require(run.backend().CopyToDevice(stream.get(), to, from, kMiB));
  const bool back = run.backend().NowNanos() - begin_ns < kHeldNs / 2;
  stream.Sync();
  return back;
}

/// Registers and unregisters all of a memory, chunk by chunk, and copies from each in between.
class Registration {
 public:
  Registration(const LimitsRun& run, const MemoryKind& kind)
      : run_(run),
        kind_(kind),
        memory_(run.emulated() ? kChunkBytes : 16 * kChunkBytes, kind.pages),
        to_(run.device(), kChunkBytes),
        stream_(run.device()) {}

  void Measure(Json* row) {
    (*row)["bytes"] = memory_.bytes();
    (*row)["chunk_bytes"] = kChunkBytes;
    if (kind_.populated) {
      const std::int64_t begin_ns = run_.backend().NowNanos();
      memory_.Populate();
      (*row)["populate_ms_per_gib"] = PerGiB(MsSince(run_, begin_ns));
    }
    std::vector<double> times_ms;
    double all_ms = 0;
    for (std::size_t place = 0; place < memory_.bytes(); place += kChunkBytes) {
      const std::int64_t begin_ns = run_.backend().NowNanos();
      chunks_.emplace_back(run_, memory_.data() + place, kChunkBytes);
      times_ms.push_back(MsSince(run_, begin_ns));
      all_ms += times_ms.back();
    }
    (*row)["huge_mib"] = memory_.HugeMiB();
    (*row)["register_ms_per_gib"] = PerGiB(all_ms);
    (*row)["register_first_ms"] = times_ms.front();
    (*row)["register_median_ms"] = QuantileOf(times_ms, 0.5);
    (*row)["asynchronous"] = IsAsynchronous(run_, stream_, to_.data(), memory_.data());
    Verify();
    const std::int64_t begin_ns = run_.backend().NowNanos();
    for (Registered& chunk : chunks_) chunk.End();
    (*row)["unregister_ms_per_gib"] = PerGiB(MsSince(run_, begin_ns));
    (*row)["verified"] = true;
  }

 private:
  double PerGiB(double ms) const { return ms * kGiB / static_cast<double>(memory_.bytes()); }

  // Written only now: the device must see the pages that the host writes to.
  void Verify() {
    memory_.FillRandom(1);
    for (std::size_t place = 0; place < memory_.bytes(); place += kChunkBytes) {
      const std::byte* const from = memory_.data() + place;
      Require(run_.backend().CopyToDevice(stream_.get(), to_.data(), from, kChunkBytes));
      RequireChecksum(run_, stream_, to_.data(), kChunkBytes, HostChecksum(from, kChunkBytes));
    }
  }

  const LimitsRun& run_;
  const MemoryKind kind_;
  const HostMemory memory_;  // outlives its registrations
  const OwnedMemory to_;
  const OwnedStream stream_;
  std::vector<Registered> chunks_;
};

/// Copies between one host memory and one of the device, each piece between the same places of
/// both: however often they are made, the one is what the other is in the end.
class Link {
 public:
  explicit Link(LimitsRun* run)
      : run_(*run),
        all_bytes_(run->emulated() ? 64 * kMiB : 256 * kMiB),
        host_(all_bytes_, Pages::kHuge),
        unregistered_(kLargest, Pages::kHuge),
        device_(run->device(), all_bytes_),
        stream_(run->device()),
        other_stream_(run->device()) {
    host_.FillRandom(2);
    std::memcpy(unregistered_.data(), host_.data(), kLargest);
    registered_ = std::make_unique<Registered>(*run, host_);
    WarmUp();
  }

  void Measure(LimitsRun* run) {
    for (std::size_t bytes = 4 * kKiB; bytes <= kLargest; bytes *= 4) {
      run->Row("to_device", [this, bytes](Json* row) { Single(bytes, row); });
      run->Row("batch_to_device", [this, bytes](Json* row) { Batch(host_, bytes, row); });
    }
    for (const std::size_t bytes : {kMiB, 16 * kMiB, 64 * kMiB}) {
      run->Row("unregistered_to_device", [this, bytes](Json* row) { Unregistered(bytes, row); });
    }
    run->Row("unregistered_batch_to_device",
             [this](Json* row) { Batch(unregistered_, kMiB, row); });
    run->Row("to_host", [this](Json* row) { ToHost(row); });
    run->Row("two_streams_to_device", [this](Json* row) { TwoStreams(row); });
  }

 private:
  static constexpr std::size_t kLargest = 64 * kMiB;
  static constexpr std::size_t kMembers = 256;
  static constexpr std::size_t kMiddle = 16 * kMiB;

  std::size_t MembersOf(std::size_t bytes) const { return std::min(kMembers, all_bytes_ / bytes); }
  std::byte* HostAt(std::size_t place) const { return host_.data() + place; }
  std::byte* DeviceAt(std::size_t place) const { return device_.data() + place; }

  // A link at rest is slow at first.
  void WarmUp() const {
    const WorkPlan plan{.in_row = 4, .seconds = run_.seconds() / 2};
    (void)MeasureWork(run_.device(), stream_, plan,
                      [this](std::size_t i) { Copy(stream_, i, kMiddle); });
  }

  void Copy(const OwnedStream& stream, std::size_t number, std::size_t bytes) const {
    const std::size_t place = number * bytes;
    Require(run_.backend().CopyToDevice(stream.get(), DeviceAt(place), HostAt(place), bytes));
  }
  void Spoil(std::size_t bytes) const {
    Require(run_.backend().Fill(stream_.get(), device_.data(), kStale, bytes));
    stream_.Sync();
  }
  void VerifyDevice(std::size_t bytes, Json* row) const {
    RequireChecksum(run_, stream_, device_.data(), bytes, HostChecksum(host_.data(), bytes));
    (*row)["verified"] = true;
  }

  void Single(std::size_t bytes, Json* row) const {
    WorkPlan plan{.in_row = MembersOf(bytes), .seconds = run_.seconds() / 2, .queued = false};
    const auto copy = [this, bytes](std::size_t i) { Copy(stream_, i, bytes); };
    Spoil(plan.in_row * bytes);
    const WorkTime loop = MeasureWork(run_.device(), stream_, plan, copy);
    plan.queued = true;
    const WorkTime queued = MeasureWork(run_.device(), stream_, plan, copy);
    (*row)["bytes"] = bytes;
    (*row)["copies_in_row"] = loop.in_row;
    (*row)["gb_per_s"] = GbPerS(bytes, loop.device_s);
    (*row)["queued_gb_per_s"] = GbPerS(bytes, queued.device_s);
    (*row)["cpu_us_per_call"] = loop.cpu_s * 1e6;
    VerifyDevice(std::max(loop.in_row, queued.in_row) * bytes, row);
  }

  void Batch(const HostMemory& from, std::size_t bytes, Json* row) const {
    std::vector<CopyPiece> pieces;
    for (std::size_t i = 0; i < std::min(kMembers, from.bytes() / bytes); ++i) {
      pieces.push_back({DeviceAt(i * bytes), from.data() + i * bytes, bytes});
    }
    const std::size_t total = pieces.size() * bytes;
    // Few in a row: their members must find room in the stream while it is held back.
    const bool blocks = &from == &unregistered_;
    const WorkPlan plan{.in_row = 2, .seconds = run_.seconds(), .queued = !blocks};
    Spoil(total);
    const WorkTime time = MeasureWork(run_.device(), stream_, plan, [&](std::size_t) {
      Require(run_.backend().CopyBatchToDevice(stream_.get(), pieces));
    });
    const auto members = static_cast<double>(pieces.size());
    (*row)["bytes"] = bytes;
    (*row)["members"] = pieces.size();
    (*row)["gb_per_s"] = GbPerS(total, time.device_s);
    (*row)["cpu_us_per_call"] = time.cpu_s * 1e6;
    (*row)["cpu_us_per_member"] = time.cpu_s * 1e6 / members;
    VerifyDevice(total, row);
  }

  void Unregistered(std::size_t bytes, Json* row) const {
    // The call blocks, so that holding the stream back would be measured as the call's.
    const WorkPlan plan{.in_row = 4, .seconds = run_.seconds(), .queued = false};
    Spoil(bytes);
    const WorkTime time = MeasureWork(run_.device(), stream_, plan, [this, bytes](std::size_t) {
      Require(run_.backend().CopyToDevice(stream_.get(), DeviceAt(0), unregistered_.data(), bytes));
    });
    (*row)["bytes"] = bytes;
    (*row)["gb_per_s"] = GbPerS(bytes, time.device_s);
    (*row)["cpu_us_per_call"] = time.cpu_s * 1e6;
    VerifyDevice(bytes, row);
  }

  void ToHost(Json* row) const {
    const HostMemory back(kMiddle, Pages::kHuge);
    std::memset(back.data(), std::to_integer<int>(kStale), kMiddle);
    const Registered registered(run_, back);
    Copy(stream_, 0, kMiddle);
    const WorkPlan plan{.in_row = 8, .seconds = run_.seconds()};
    const WorkTime time = MeasureWork(run_.device(), stream_, plan, [&](std::size_t) {
      Require(run_.backend().CopyToHost(stream_.get(), back.data(), DeviceAt(0), kMiddle));
    });
    (*row)["bytes"] = kMiddle;
    (*row)["gb_per_s"] = GbPerS(kMiddle, time.device_s);
    (*row)["cpu_us_per_call"] = time.cpu_s * 1e6;
    if (std::memcmp(back.data(), host_.data(), kMiddle) != 0) {
      FailVerification("the host has other bytes than the device");
    }
    (*row)["verified"] = true;
  }

  // The other stream's copies lie between two points of the first one's: its events time both.
  void TwoStreams(Json* row) const {
    PlainEvent fork(run_);
    PlainEvent join(run_);
    constexpr std::size_t kPairs = 2;
    const auto pairs = [&](std::size_t) {
      fork.Record(stream_);
      Require(run_.backend().StreamWait(other_stream_.get(), fork.get()));
      for (std::size_t i = 0; i < kPairs; ++i) {
        Copy(stream_, 2 * i, kMiddle);
        Copy(other_stream_, 2 * i + 1, kMiddle);
      }
      join.Record(other_stream_);
      Require(run_.backend().StreamWait(stream_.get(), join.get()));
    };
    constexpr std::size_t kTotal = 2 * kPairs * kMiddle;
    Spoil(kTotal);
    const WorkPlan plan{.in_row = 2, .seconds = run_.seconds()};
    const WorkTime two = MeasureWork(run_.device(), stream_, plan, pairs);
    VerifyDevice(kTotal, row);
    Spoil(kTotal);
    const WorkTime one = MeasureWork(run_.device(), stream_, plan, [this](std::size_t) {
      for (std::size_t i = 0; i < 2 * kPairs; ++i) Copy(stream_, i, kMiddle);
    });
    VerifyDevice(kTotal, row);
    (*row)["bytes"] = kMiddle;
    (*row)["gb_per_s"] = GbPerS(kTotal, two.device_s);
    (*row)["one_stream_gb_per_s"] = GbPerS(kTotal, one.device_s);
  }

  const LimitsRun& run_;
  const std::size_t all_bytes_;
  const HostMemory host_;
  const HostMemory unregistered_;
  const OwnedMemory device_;
  const OwnedStream stream_;
  const OwnedStream other_stream_;
  std::unique_ptr<Registered> registered_;
};

}  // namespace

void MeasureRegistration(LimitsRun* run) {
  for (const MemoryKind& kind : kMemoryKinds) {
    run->Row(kind.name, [&](Json* row) { Registration(*run, kind).Measure(row); });
  }
}

void MeasureLink(LimitsRun* run) { Link(run).Measure(run); }

}  // namespace ringfeed::bench
