#include "bench/paired_rows.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace ringfeed::bench {
namespace {

bool Agree(const PairedRow& row) {
  const LoopResult ours = row.ours(true);
  const LoopResult baseline = row.baseline(true);
  return ours.digest == baseline.digest && ours.records == baseline.records &&
         ours.bytes == baseline.bytes;
}

void RunSide(benchmark::State& state, const std::function<LoopResult(bool)>& side,
             const PairedRow& row) {
  if (!Agree(row)) return state.SkipWithError("the digests of both sides differ");
  LoopResult total;
  for (auto _ : state) {
    const LoopResult result = side(false);
    state.SetIterationTime(result.cpu_s);
    total.records += result.records;
    total.bytes += result.bytes;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(total.records));
  state.SetBytesProcessed(static_cast<std::int64_t>(total.bytes));
}

// Runs every row: once with digests, which must agree, once to warm up, then `times` times in
// turn. Prints a line of JSON for each time and row: name, ours, baseline (rates), unit, verified.
// Returns the exit status of the program.
int PrintPairedRows(const std::vector<PairedRow>& rows, int times) {
  bool all_verified = true;
  for (const PairedRow& row : rows) {
    const bool verified = Agree(row);
    all_verified = all_verified && verified;
    static_cast<void>(row.ours(false));
    static_cast<void>(row.baseline(false));
    for (int i = 0; i < times; ++i) {
      const double baseline = row.rate(row.baseline(false));
      const double ours = row.rate(row.ours(false));
      std::printf(
          "{\"name\": \"%s\", \"ours\": %.6g, \"baseline\": %.6g, \"unit\": \"%s\", "
          "\"verified\": %s}\n",
          row.name.c_str(), ours, baseline, row.unit.c_str(), verified ? "true" : "false");
      std::fflush(stdout);
    }
  }
  return all_verified ? 0 : 1;
}

// Registers both sides of every row with Google Benchmark ("name/ours", "name/baseline"); a
// digest that differs is an error of the benchmark.
void RegisterPairedRows(const std::vector<PairedRow>& rows) {
  for (const PairedRow& row : rows) {
    benchmark::RegisterBenchmark((row.name + "/ours").c_str(), [row](benchmark::State& state) {
      RunSide(state, row.ours, row);
    })->UseManualTime();
    benchmark::RegisterBenchmark((row.name + "/baseline").c_str(), [row](benchmark::State& state) {
      RunSide(state, row.baseline, row);
    })->UseManualTime();
  }
}

}  // namespace

double RecordsPerCpuSecond(const LoopResult& result) {
  return result.cpu_s > 0 ? static_cast<double>(result.records) / result.cpu_s : 0;
}

double GigabytesPerSecond(const LoopResult& result) {
  return result.wall_s > 0 ? static_cast<double>(result.bytes) / 1e9 / result.wall_s : 0;
}

int PairedMain(int argc, char** argv, const std::function<std::vector<PairedRow>()>& rows) try {
  constexpr std::string_view kRowsJson = "--rows-json";
  constexpr int kTimes = 5;
  if (argc == 2 && std::string_view(argv[1]).starts_with(kRowsJson)) {
    const std::string_view times = std::string_view(argv[1]).substr(kRowsJson.size());
    const int asked = times.starts_with("=") ? std::atoi(times.substr(1).data()) : kTimes;
    return PrintPairedRows(rows(), asked > 0 ? asked : kTimes);
  }
  RegisterPairedRows(rows());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace ringfeed::bench
