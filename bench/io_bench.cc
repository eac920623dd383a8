// Reading files by each of ringfeed's engines, beside plain pread (warm) and fio (cold). As a
// Google Benchmark program it runs every case; with --rows-json it prints, a line for each
// repetition,
//   {"name", "ours", "baseline", "unit", "verified"}
// for `scripts/bench`. --only NAME,… chooses rows, --repetitions N how often.
//
// Warm cases take a checksum of each block as it arrives, as a reader does; it is compared with
// that of plain pread. Cold cases are timed without, as fio runs, and verified by a pass of the
// same engine beside the timed ones.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/memory/arena.h"
#include "bench/bench_data.h"
#include "bench/io_loop.h"
#include "io/input_file.h"
#include "io/page_cache.h"
#include "io/read_engine.h"

namespace ringfeed::bench {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
/// What a cold read may cost at most, in CPU seconds per GiB.
constexpr double kColdCpuLimit = 0.02;

std::uint64_t FileBytes() { return std::uint64_t{SmokeRun() ? 16u : 1024u} << 20; }

const std::shared_ptr<Arena>& BenchArena() {
  static const std::shared_ptr<Arena> arena = Arena::Create({.bytes = std::size_t{64} << 20});
  return arena;
}

IoFigures Read(const std::string& path, IoMethod method, bool digest) {
  IoLoopOptions options;
  options.method = method;
  options.digest = digest;
  return ReadFile(path, options, BenchArena());
}

/// The digest that every method has to come to.
std::uint64_t TrueDigest(const std::string& path) {
  return Read(path, IoMethod::kBarePread, true).digest;
}

/// Empty where the method reads the file's bytes, else what went wrong.
std::string Verify(const std::string& path, IoMethod method) {
  const std::uint64_t truth = TrueDigest(path);
  (void)DropFromPageCache(path);
  const IoFigures figures = Read(path, method, true);
  if (!figures.failure.empty()) return figures.failure;
  return figures.digest == truth ? "" : "the digests differ";
}

void PrintRow(const std::string& name, double ours, double baseline, const char* unit,
              bool verified) {
  std::printf(
      "{\"name\": \"%s\", \"ours\": %.6g, \"baseline\": %.6g, \"unit\": \"%s\", "
      "\"verified\": %s}\n",
      name.c_str(), ours, baseline, unit, verified ? "true" : "false");
  std::fflush(stdout);
}

void PrintSkipped(const std::string& name, const std::string& why) {
  std::printf("{\"name\": \"%s\", \"skipped\": \"%s\"}\n", name.c_str(), why.c_str());
  std::fflush(stdout);
}

double CpuPerGiB(const IoFigures& figures) {
  return figures.cpu_s / (static_cast<double>(figures.bytes) / kGiB);
}
double GigabytesPerSecond(const IoFigures& figures) {
  return static_cast<double>(figures.bytes) / 1e9 / figures.wall_s;
}

bool Asked(const std::string& only, const std::string& name) {
  return only.empty() || ("," + only + ",").find("," + name + ",") != std::string::npos;
}

/// Why nothing can be read cold here; empty where it can.
std::string WhyNoColdRows(const std::string& path) {
  constexpr double kMostCached = 0.02;
  if (!ProbeUring().available) return "no io_uring: " + ProbeUring().reason;
  (void)DropFromPageCache(path);
  if (CachedShare(path) > kMostCached) return "pages of " + path + " stay in memory";
  return "";
}

/// The rows of cold reading, interleaved with fio.
int RunRows(const std::string& only, int repetitions) {
  const bool cpu = Asked(only, "io.cold_cpu");
  const bool limit = Asked(only, "io.cold_cpu_limit");
  const bool wall = Asked(only, "io.cold_wall");
  if (!cpu && !limit && !wall) return 0;
  const std::string path = IoFile(FileBytes());
  const std::string why_none = WhyNoColdRows(path);
  const std::string why_no_fio = HasFio() ? "" : "fio is not installed";
  if (cpu && !(why_none + why_no_fio).empty()) {
    PrintSkipped("io.cold_cpu", why_none.empty() ? why_no_fio : why_none);
  }
  if (wall && !(why_none + why_no_fio).empty()) {
    PrintSkipped("io.cold_wall", why_none.empty() ? why_no_fio : why_none);
  }
  if (limit && !why_none.empty()) PrintSkipped("io.cold_cpu_limit", why_none);
  if (!why_none.empty()) return 0;
  const std::string failure = Verify(path, IoMethod::kUring);
  if (!failure.empty()) std::fprintf(stderr, "io_bench: %s\n", failure.c_str());
  IoLoopOptions options;
  options.method = IoMethod::kUring;
  options.digest = false;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto read_ours = [&] {
      (void)DropFromPageCache(path);
      return ReadFile(path, options, BenchArena());
    };
    IoFigures ours;
    if (repetition % 2 == 0) ours = read_ours();
    IoFigures fio;
    if (why_no_fio.empty()) {
      (void)DropFromPageCache(path);
      fio = RunFio({.paths = {path},
                    .block_bytes = options.block_bytes,
                    .blocks_in_flight = options.blocks_in_flight});
    }
    if (repetition % 2 != 0) ours = read_ours();
    const bool ours_verified = failure.empty() && ours.failure.empty();
    const bool verified = ours_verified && fio.failure.empty();
    if (limit) {
      PrintRow("io.cold_cpu_limit", CpuPerGiB(ours), kColdCpuLimit, "CPU s/GiB", ours_verified);
    }
    if (!why_no_fio.empty()) continue;
    if (cpu) PrintRow("io.cold_cpu", CpuPerGiB(ours), CpuPerGiB(fio), "CPU s/GiB", verified);
    if (wall) {
      PrintRow("io.cold_wall", GigabytesPerSecond(ours), GigabytesPerSecond(fio), "GB/s", verified);
    }
  }
  return 0;
}

void Report(benchmark::State& state, const IoFigures& sum) {
  state.SetBytesProcessed(static_cast<std::int64_t>(sum.bytes));
  state.counters["CPU_s_per_GiB"] = CpuPerGiB(sum);
  state.counters["GB_per_CPU_s"] = static_cast<double>(sum.bytes) / 1e9 / sum.cpu_s;
}

void Add(const IoFigures& figures, IoFigures* sum) {
  sum->cpu_s += figures.cpu_s;
  sum->wall_s += figures.wall_s;
  sum->bytes += figures.bytes;
}

void RunCase(benchmark::State& state, IoMethod method, bool cold) {
  if (method == IoMethod::kUring && !ProbeUring().available) {
    state.SkipWithError(("skipped: " + ProbeUring().reason).c_str());
    return;
  }
  const std::string path = IoFile(FileBytes());
  const std::string failure = Verify(path, method);
  if (!failure.empty()) {
    state.SkipWithError(failure.c_str());
    return;
  }
  (void)BringIntoPageCache(path);
  // As a chain does from pass to pass: whoever opens it gets this mapping.
  OpenInputResult kept;
  if (method == IoMethod::kMmap) kept = OpenInput(path, {.path = IoPath::kMmap}, {.may_map = true});
  IoFigures sum;
  for (auto iteration : state) {
    if (cold) (void)DropFromPageCache(path);
    const IoFigures figures = Read(path, method, !cold);
    Add(figures, &sum);
    state.SetIterationTime(figures.wall_s);
  }
  Report(state, sum);
}

void RunFioCase(benchmark::State& state) {
  if (!HasFio()) {
    state.SkipWithError("skipped: fio is not installed");
    return;
  }
  const std::string path = IoFile(FileBytes());
  IoFigures sum;
  for (auto iteration : state) {
    (void)DropFromPageCache(path);
    const IoFigures figures = RunFio({.paths = {path}});
    if (!figures.failure.empty()) {
      state.SkipWithError(("skipped: " + figures.failure).c_str());
      return;
    }
    Add(figures, &sum);
    state.SetIterationTime(figures.wall_s);
  }
  Report(state, sum);
}

int RunBenchmarks(int argc, char** argv) {
  struct Case {
    const char* name;
    IoMethod method;
    bool cold;
  };
  constexpr Case kCases[] = {
      {"warm/pread", IoMethod::kBarePread, false}, {"warm/inline", IoMethod::kInline, false},
      {"warm/pool", IoMethod::kPool, false},       {"warm/uring", IoMethod::kUring, false},
      {"cold/pread", IoMethod::kBarePread, true},  {"cold/pool", IoMethod::kPool, true},
      {"cold/uring", IoMethod::kUring, true},
  };
  for (const Case& each : kCases) {
    benchmark::RegisterBenchmark(each.name, RunCase, each.method, each.cold)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("cold/fio", RunFioCase)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  // The last: the pages of a file that is mapped leave the cache no more.
  benchmark::RegisterBenchmark("warm/mmap", RunCase, IoMethod::kMmap, false)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

int RunMain(int argc, char** argv) {
  bool rows_json = false;
  std::string only;
  int repetitions = 5;
  for (int number = 1; number < argc; ++number) {
    const std::string_view argument = argv[number];
    const bool has_value = number + 1 < argc;
    if (argument == "--rows-json") rows_json = true;
    if (argument == "--only" && has_value) only = argv[number + 1];
    if (argument == "--repetitions" && has_value) repetitions = std::atoi(argv[number + 1]);
  }
  return rows_json ? RunRows(only, repetitions) : RunBenchmarks(argc, argv);
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) { return ringfeed::bench::RunMain(argc, argv); }
