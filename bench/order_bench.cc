// Order, position and index through the interfaces that users and the engine have, each beside a
// bare loop, a plain read or the same chain without a shuffle, in one process, in turn. As a Google
// Benchmark program it runs every work; with --rows-json it prints, a line for each repetition,
//   {"name", "ours", "baseline", "unit", "verified"}
// for `scripts/bench`. --only NAME,… chooses rows, --repetitions N how often.
//
// Warm rows are whole passes of an endless chain, from the second one on; CPU seconds of ours are
// of the whole process. Cold rows drop the files' pages before every pass and count what came from
// the medium. What is verified is done beside what is timed (OrderRun::Verify).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "bench/order_run.h"

namespace ringfeed::bench {
namespace {

// Cold ones first: pages of a file that is still mapped stay in memory.
const std::vector<OrderWork>& Works() {
  static const std::vector<OrderWork> kWorks = [] {
    std::vector<OrderWork> all;
    for (auto* works : {&ColdWorks, &WarmShuffleWorks, &GatherWorks, &IndexWorks, &PositionWorks}) {
      const std::vector<OrderWork> some = works();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return kWorks;
}

bool Asked(const std::string& only, const std::string& name) {
  return only.empty() || ("," + only + ",").find("," + name + ",") != std::string::npos;
}

constexpr std::string_view kSkipped = "skipped: ";

bool Asked(const std::string& only, const OrderWork& work) {
  return std::any_of(work.rows.begin(), work.rows.end(),
                     [&](const OrderWork::Row& row) { return Asked(only, row.name); });
}

void PrintRow(const OrderWork::Row& row, const OrderFigure& figure, bool verified) {
  std::printf(
      "{\"name\": \"%s\", \"ours\": %.6g, \"baseline\": %.6g, \"unit\": \"%s\", "
      "\"verified\": %s}\n",
      row.name.c_str(), figure.ours, figure.baseline, row.unit.c_str(),
      verified ? "true" : "false");
  std::fflush(stdout);
}

void PrintSkipped(const OrderWork::Row& row, const std::string& why) {
  std::printf("{\"name\": \"%s\", \"skipped\": \"%s\"}\n", row.name.c_str(), why.c_str());
  std::fflush(stdout);
}

void RunWork(const OrderWork& work, const std::string& only, int repetitions) {
  const std::unique_ptr<OrderRun> run = work.start();
  const std::string wrong = run->Verify();
  if (wrong.starts_with(kSkipped)) {
    for (const OrderWork::Row& row : work.rows) {
      if (Asked(only, row.name)) PrintSkipped(row, wrong.substr(kSkipped.size()));
    }
    return;
  }
  if (!wrong.empty()) {
    std::fprintf(stderr, "order_bench: %s: %s\n", work.rows[0].name.c_str(), wrong.c_str());
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::vector<OrderFigure> figures = run->Measure(repetition % 2 == 0);
    for (std::size_t i = 0; i < work.rows.size(); ++i) {
      if (!Asked(only, work.rows[i].name)) continue;
      if (!figures[i].skipped.empty()) {
        PrintSkipped(work.rows[i], figures[i].skipped);
        continue;
      }
      PrintRow(work.rows[i], figures[i], wrong.empty() && figures[i].verified);
    }
  }
}

// A work that fails leaves the others' rows.
int RunRows(const std::string& only, int repetitions) {
  bool failed = false;
  for (const OrderWork& work : Works()) {
    if (!Asked(only, work)) continue;
    try {
      RunWork(work, only, repetitions);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "order_bench: %s: %s\n", work.rows[0].name.c_str(), error.what());
      for (const OrderWork::Row& row : work.rows) {
        if (Asked(only, row.name)) PrintRow(row, {}, false);
      }
      failed = true;
    }
  }
  return failed ? 1 : 0;
}

void RunCase(benchmark::State& state, const OrderWork& work) try {
  const std::unique_ptr<OrderRun> run = work.start();
  const std::string wrong = run->Verify();
  if (!wrong.empty()) return state.SkipWithError(wrong.c_str());
  bool ours_first = true;
  std::vector<OrderFigure> figures;
  for (auto iteration : state) {
    figures = run->Measure(ours_first);
    ours_first = !ours_first;
  }
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (!figures[i].verified) state.SkipWithError("skipped: the files stay in memory");
    state.counters[work.rows[i].name] = figures[i].ours;
    if (figures[i].baseline > 0) state.counters[work.rows[i].name + "/base"] = figures[i].baseline;
  }
} catch (const std::exception& error) {
  state.SkipWithError(error.what());
}

int RunBenchmarks(int argc, char** argv) {
  for (const OrderWork& work : Works()) {
    benchmark::RegisterBenchmark(work.rows[0].name.c_str(), RunCase, work)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
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
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--rows-json") rows_json = true;
    if (argument == "--only" && has_value) only = argv[i + 1];
    if (argument == "--repetitions" && has_value) repetitions = std::atoi(argv[i + 1]);
  }
  return rows_json ? RunRows(only, repetitions) : RunBenchmarks(argc, argv);
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) { return ringfeed::bench::RunMain(argc, argv); }
