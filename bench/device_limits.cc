// What one device and its link can do at best, by the calls that ringfeed makes of them: what
// registering memory costs, how fast copies and kernels are by their size, and what the host pays
// for their calls. All that is copied or computed is compared with the host's.
//
//   device_limits_bench [--devices cuda|emu] [--seconds S] [--json]
//
// A measurement takes about S seconds (0.3). Each row is a line of JSON on standard error when it
// is measured, so that a device that hangs leaves those before; --json writes all of them as one
// document to standard output. Emulated devices rehearse it, with less memory. Exit status: 0; 1 if
// a measurement failed, which its row says; 2 for wrong options; 77 without such a device, then the
// last line is "skipped: WHY".
#include "bench/device_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "base/quantile.h"
#include "base/random_bits.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/devices/device_kinds.h"
#if RINGFEED_WITH_CUDA
#include "ringfeed/devices/cuda_devices.h"
#endif

namespace ringfeed::bench {

// --- parts -------------------------------------------------------------------------------------

double LimitsRun::MsSince(std::int64_t begin_ns) const {
  return static_cast<double>(backend().NowNanos() - begin_ns) / 1e6;
}

void LimitsRun::Section(const std::string& name, void (*measure)(LimitsRun*)) {
  section_ = name;
  sections_[name] = Json::array();
  try {
    measure(this);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    Row("set_up", [&what](Json*) { throw std::runtime_error(what); });
  }
}

void LimitsRun::Row(const std::string& name, const std::function<void(Json*)>& measure) {
  Json row;
  row["name"] = name;
  try {
    measure(&row);
  } catch (const std::exception& error) {
    row["failed"] = error.what();
    row["verified"] = false;
    ++failures_;
  }
  std::fprintf(stderr, "%s: %s\n", section_.c_str(), row.dump().c_str());
  sections_[section_].push_back(std::move(row));
}

HostMemory::HostMemory(std::size_t bytes, Pages pages)
    : bytes_(bytes),
      mapped_bytes_(bytes + 2 * kMiB),
      mapped_(mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0)) {
  if (mapped_ == MAP_FAILED) throw Error(StatusFromErrno(errno, "map host memory"));
  const auto start = reinterpret_cast<std::uintptr_t>(mapped_);
  data_ = static_cast<std::byte*>(mapped_) + (2 * kMiB - start % (2 * kMiB));
  // A kernel without huge pages refuses both; "huge_mib" tells what became of it.
  (void)madvise(mapped_, mapped_bytes_, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

HostMemory::~HostMemory() { munmap(mapped_, mapped_bytes_); }

void HostMemory::Fill(std::byte value) const {
  std::memset(data_, std::to_integer<int>(value), bytes_);
}

void HostMemory::FillRandom(std::uint64_t seed) const { RandomBits(seed).Fill({data_, bytes_}); }

double GbPerS(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / 1e9 / std::max(seconds, 1e-12);
}

void RequireSame(const LimitsRun& run, const OwnedStream& stream, const std::byte* on_device,
                 const std::byte* expected, std::size_t bytes) {
  const OwnedMemory sum(run.device(), sizeof(std::uint64_t));
  std::uint64_t right = 0;
  RunKernelOnHost(Checksum{expected, bytes, &right});
  std::uint64_t found = ~right;
  auto* const place = reinterpret_cast<std::uint64_t*>(sum.data());
  Require(run.backend().Launch(stream.get(), Checksum{on_device, bytes, place}));
  Require(run.backend().CopyToHost(stream.get(), reinterpret_cast<std::byte*>(&found), sum.data(),
                                   sizeof(found)));
  stream.Sync();
  if (found != right) FailVerification("the device has other bytes than the host");
}

void FailVerification(const std::string& what) { throw Error(Status(StatusCode::kDamaged, what)); }

namespace {

// --- registration ------------------------------------------------------------------------------

constexpr std::size_t kChunkBytes = 64 * kMiB;  // as the feed registers

// MiB of this process that are in huge pages.
double HugeMiB() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  double kib = -1024;
  for (std::string word; rollup >> word;) {
    if (word == "AnonHugePages:") rollup >> kib;
  }
  return kib / 1024;
}

// Registers and unregisters all of a memory, chunk by chunk, and copies from each in between.
void Register(const LimitsRun& run, Pages pages, bool populated, Json* row) {
  const HostMemory memory(run.emulated() ? kChunkBytes : 16 * kChunkBytes, pages);
  const OwnedMemory to(run.device(), kChunkBytes);
  const OwnedStream stream(run.device());
  std::vector<std::unique_ptr<Registered>> chunks;
  const auto per_gib = [&](double ms) {
    return ms * 1024 * static_cast<double>(kMiB) / static_cast<double>(memory.bytes());
  };
  const double huge_before = HugeMiB();
  (*row)["bytes"] = memory.bytes();
  (*row)["chunk_bytes"] = kChunkBytes;
  std::int64_t begin_ns = run.backend().NowNanos();
  if (populated) {
    memory.Fill(std::byte{1});
    (*row)["populate_ms_per_gib"] = per_gib(run.MsSince(begin_ns));
  }
  std::vector<double> times_ms;
  double all_ms = 0;
  for (std::size_t place = 0; place < memory.bytes(); place += kChunkBytes) {
    begin_ns = run.backend().NowNanos();
    chunks.push_back(std::make_unique<Registered>(run, memory.data() + place, kChunkBytes));
    times_ms.push_back(run.MsSince(begin_ns));
    all_ms += times_ms.back();
  }
  (*row)["huge_mib"] = HugeMiB() - huge_before;
  (*row)["register_ms_per_gib"] = per_gib(all_ms);
  (*row)["register_first_ms"] = times_ms.front();
  (*row)["register_median_ms"] = QuantileOf(times_ms, 0.5);
  // Written only now: the device must see the pages that the host writes to.
  memory.FillRandom(1);
  for (std::size_t place = 0; place < memory.bytes(); place += kChunkBytes) {
    const std::byte* const from = memory.data() + place;
    Require(run.backend().CopyToDevice(stream.get(), to.data(), from, kChunkBytes));
    RequireSame(run, stream, to.data(), from, kChunkBytes);
  }
  begin_ns = run.backend().NowNanos();
  chunks.clear();
  (*row)["unregister_ms_per_gib"] = per_gib(run.MsSince(begin_ns));
  (*row)["verified"] = true;
}

void MeasureRegistration(LimitsRun* run) {
  const auto row = [run](const char* name, Pages pages, bool populated) {
    run->Row(name, [=](Json* json) { Register(*run, pages, populated, json); });
  };
  row("small_pages", Pages::kSmall, true);
  row("huge_pages", Pages::kHuge, true);
  row("small_not_populated", Pages::kSmall, false);
  row("huge_not_populated", Pages::kHuge, false);
  run->Row("alloc_free_4_mib", [run](Json* json) {
    std::vector<double> us;
    while (us.size() < 64) {
      const std::int64_t begin_ns = run->backend().NowNanos();
      { const OwnedMemory memory(run->device(), 4 * kMiB); }
      us.push_back(1e3 * run->MsSince(begin_ns));
    }
    (*json)["median_us"] = QuantileOf(us, 0.5);
  });
}

// --- link --------------------------------------------------------------------------------------

// Copies between one host memory and one of the device, each piece between the same places of
// both: however often they are made, the one is what the other is in the end.
class Link {
 public:
  explicit Link(LimitsRun* run)
      : run_(*run),
        host_(run->emulated() ? kLargest : 4 * kLargest, Pages::kHuge),
        unregistered_(kLargest, Pages::kHuge),
        device_(run->device(), host_.bytes()),
        stream_(run->device()),
        other_stream_(run->device()),
        registered_(*run, host_) {
    host_.FillRandom(2);
    std::memcpy(unregistered_.data(), host_.data(), kLargest);
    // A link at rest is slow at first.
    (void)Time({.in_row = 4}, [this](std::size_t i) { Copy(stream_, i, kMiddle); });
  }

  void Measure(LimitsRun* run) {
    for (std::size_t bytes = 4 * kKiB; bytes <= kLargest; bytes *= 4) {
      run->Row("to_device", [this, bytes](Json* row) { Single(host_, bytes, row); });
      run->Row("batch_to_device", [this, bytes](Json* row) { Batch(host_, bytes, row); });
    }
    for (const std::size_t bytes : {kMiB, 16 * kMiB, 64 * kMiB}) {
      run->Row("unregistered_to_device",
               [=, this](Json* row) { Single(unregistered_, bytes, row); });
    }
    run->Row("unregistered_batch_to_device",
             [this](Json* row) { Batch(unregistered_, kMiB, row); });
    run->Row("two_streams_to_device", [this](Json* row) { TwoStreams(row); });
  }

 private:
  static constexpr std::size_t kLargest = 64 * kMiB;
  static constexpr std::size_t kMembers = 256;
  static constexpr std::size_t kMiddle = 16 * kMiB;

  template <typename Enqueue>
  WorkTime Time(WorkPlan plan, const Enqueue& enqueue) const {
    plan.seconds = run_.seconds() / 2;
    return MeasureWork(run_.device(), stream_, plan, enqueue);
  }
  void Copy(const OwnedStream& stream, std::size_t number, std::size_t bytes) const {
    const std::size_t at = number * bytes;
    Require(
        run_.backend().CopyToDevice(stream.get(), device_.data() + at, host_.data() + at, bytes));
  }
  void Spoil(std::size_t bytes) const {
    Require(run_.backend().Fill(stream_.get(), device_.data(), kStale, bytes));
    stream_.Sync();
  }
  void Verify(std::size_t bytes, Json* row) const {
    RequireSame(run_, stream_, device_.data(), host_.data(), bytes);
    (*row)["verified"] = true;
  }
  void Tell(std::size_t bytes, std::size_t each, const WorkTime& time, Json* row) const {
    (*row)["bytes"] = each;
    (*row)["gb_per_s"] = GbPerS(bytes, time.device_s);
    (*row)["cpu_us_per_call"] = time.cpu_s * 1e6;
  }

  // From memory that is not registered the call blocks, so that holding the stream back would be
  // measured as the call's.
  void Single(const HostMemory& from, std::size_t bytes, Json* row) const {
    WorkPlan plan{.in_row = std::min(kMembers, from.bytes() / bytes), .queued = false};
    const auto copy = [&](std::size_t i) {
      const std::size_t at = i * bytes;
      Require(
          run_.backend().CopyToDevice(stream_.get(), device_.data() + at, from.data() + at, bytes));
    };
    Spoil(plan.in_row * bytes);
    const WorkTime loop = Time(plan, copy);
    Tell(bytes, bytes, loop, row);
    (*row)["copies_in_row"] = loop.in_row;
    if (&from != &unregistered_) {
      plan.queued = true;
      (*row)["queued_gb_per_s"] = GbPerS(bytes, Time(plan, copy).device_s);
    }
    Verify(loop.in_row * bytes, row);
  }

  void Batch(const HostMemory& from, std::size_t bytes, Json* row) const {
    std::vector<CopyPiece> pieces;
    for (std::size_t i = 0; i < std::min(kMembers, from.bytes() / bytes); ++i) {
      pieces.push_back({device_.data() + i * bytes, from.data() + i * bytes, bytes});
    }
    const std::size_t total = pieces.size() * bytes;
    Spoil(total);
    // Few in a row: their members must find room in the stream while it is held back. From memory
    // that is not registered the call blocks.
    const WorkPlan plan{.in_row = 2, .queued = &from != &unregistered_};
    const WorkTime time = Time(plan, [&](std::size_t) {
      Require(run_.backend().CopyBatchToDevice(stream_.get(), pieces));
    });
    Tell(total, bytes, time, row);
    (*row)["members"] = pieces.size();
    (*row)["cpu_us_per_member"] = time.cpu_s * 1e6 / static_cast<double>(pieces.size());
    Verify(total, row);
  }

  // By the clock: all copies enqueued, then both streams waited for.
  double ByTheClock(const OwnedStream& second) const {
    const std::size_t copies = host_.bytes() / kMiddle;
    std::vector<double> seconds;
    const std::int64_t start_ns = run_.backend().NowNanos();
    while (seconds.size() < 3 || run_.MsSince(start_ns) < 500 * run_.seconds()) {
      const std::int64_t begin_ns = run_.backend().NowNanos();
      for (std::size_t i = 0; i < copies; ++i) Copy(i % 2 == 0 ? stream_ : second, i, kMiddle);
      stream_.Sync();
      second.Sync();
      seconds.push_back(run_.MsSince(begin_ns) / 1e3);
    }
    return GbPerS(copies * kMiddle, QuantileOf(seconds, 0.5));
  }

  void TwoStreams(Json* row) const {
    (*row)["bytes"] = kMiddle;
    Spoil(host_.bytes());
    (*row)["gb_per_s"] = ByTheClock(other_stream_);
    Verify(host_.bytes(), row);
    (*row)["one_stream_gb_per_s"] = ByTheClock(stream_);
  }

  const LimitsRun& run_;
  const HostMemory host_;
  const HostMemory unregistered_;
  const OwnedMemory device_;
  const OwnedStream stream_;
  const OwnedStream other_stream_;
  const Registered registered_;
};

void MeasureLink(LimitsRun* run) { Link(run).Measure(run); }

// --- the program -------------------------------------------------------------------------------

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitSkipped = 77;

struct Options {
  std::string devices = "cuda";
  double seconds = 0.3;
  bool json = false;
};

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--json") {
      options->json = true;
      continue;
    }
    if (++i == argc) return false;
    if (option == "--devices") {
      options->devices = argv[i];
    } else if (option == "--seconds") {
      options->seconds = std::atof(argv[i]);
    } else {
      return false;
    }
  }
  return options->seconds > 0;
}

int Run(const Options& options) {
  OwnedDevice device;
  Json document;
  try {
    device.backend = OpenDevices(options.devices);
    Require(device.backend->BindThread(device.number));
    DeviceInfo info;
    Require(device.backend->Info(device.number, &info));
    document["device"] = {{"kind", device.backend->name()}, {"name", info.name}};
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.status().ToString().c_str());
    return kExitSkipped;
  }
  LimitsRun run(device, options.seconds);
  const std::int64_t begin_ns = device.backend->NowNanos();
  run.Section("registration", MeasureRegistration);
  run.Section("link", MeasureLink);
  run.Section("kernels", MeasureKernels);
  document["seconds"] = options.seconds;
  document["wall_s"] = run.MsSince(begin_ns) / 1e3;
  document["failures"] = run.failures();
  document.update(run.sections());
  if (options.json) std::printf("%s\n", document.dump(1).c_str());
  return run.failures() == 0 ? 0 : kExitFailed;
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
#if RINGFEED_WITH_CUDA
  ringfeed::UseCuda();
#endif
  ringfeed::bench::Options options;
  if (!ringfeed::bench::ParseOptions(argc, argv, &options)) {
    std::fputs("device_limits_bench [--devices cuda|emu] [--seconds S] [--json]\n", stderr);
    return ringfeed::bench::kExitUsage;
  }
  return ringfeed::bench::Run(options);
}
