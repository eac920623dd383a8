// Whole chains through the public interface, each beside a bare loop over the same files in the
// same process, in turn. As a Google Benchmark program it runs every chain and every loop; with
// --rows-json it prints, a line for each repetition,
//   {"name", "ours", "baseline", "unit", "verified"}
// for `scripts/bench`. --only NAME,… chooses rows, --repetitions N how often. feed.first_batch and
// feed.memory are measured only if they are named: each repetition wants a process of its own.
// With --threads N each kind of work runs N threads beside N bare loops, and each repetition prints
//   {"name", "threads", "ours", "baseline", "ours_cpu", "baseline_cpu", "unit", "verified"}
// : rates by the clock, then per CPU second.
//
// What is timed are whole passes, warm: the CPU seconds of ours are of the whole process. What is
// verified is done beside them: the digest of all batches in file order equals the bare loop's, and
// the timed order delivers the same multiset of rows.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/feed_rows.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kMemoryArenaBytes = std::size_t{128} << 20;
constexpr std::size_t kMemoryMargin = std::size_t{64} << 20;
constexpr double kFirstBatchLimitMs = 10;

struct RowFigure {
  double ours = 0;
  double baseline = 0;
};

void PrintRow(const std::string& name, const RowFigure& figure, const char* unit, bool verified) {
  std::printf(
      "{\"name\": \"%s\", \"ours\": %.6g, \"baseline\": %.6g, \"unit\": \"%s\", "
      "\"verified\": %s}\n",
      name.c_str(), figure.ours, figure.baseline, unit, verified ? "true" : "false");
  std::fflush(stdout);
}

// One kind of work, set up and warm.
class WorkRun {
 public:
  explicit WorkRun(const FeedWork& work)
      : work_(work),
        files_(work.files()),
        chain_(work.chain(files_, work.order), files_.records, work.blocks),
        bare_(work.bare, files_.paths, work.order.threads) {
    chain_.ReadPass();
    Bare();
  }

  // The pass before takes what was prefetched while nobody looked, so that the timed one begins and
  // ends in full flow.
  LoopResult Ours() {
    chain_.ReadPass();
    LoopResult result = chain_.ReadPass();
    result.bytes = bare_bytes_;
    return result;
  }
  LoopResult Bare() {
    const LoopResult result = bare_.Run({.batch_rows = work_.batch_rows});
    bare_bytes_ = result.bytes;
    return result;
  }
  bool Verify() {
    LoopOptions options{.batch_rows = work_.batch_rows, .digest = true};
    const LoopResult bare = work_.bare(files_.paths)(options);
    FeedChain in_file_order(work_.chain(files_, {.cycle = 1}), files_.records, work_.blocks);
    std::uint64_t sum_in_file_order = 0;
    std::uint64_t sum = 0;
    const LoopResult ours = in_file_order.DigestPass(&sum_in_file_order);
    const LoopResult timed = chain_.DigestPass(&sum);
    return ours.digest == bare.digest && ours.records == bare.records && sum == sum_in_file_order &&
           timed.records == bare.records;
  }

 private:
  const FeedWork work_;
  const BenchFiles files_;
  FeedChain chain_;
  const SideBySide bare_;
  std::uint64_t bare_bytes_ = 0;
};

const FeedWork& WorkOf(const std::string& name) {
  const auto& works = FeedWorks();
  return *std::find_if(works.begin(), works.end(),
                       [&](const FeedWork& work) { return work.name == name; });
}

using Measure = FeedRow::Measure;

double Amount(const LoopResult& result, Measure measure) {
  switch (measure) {
    case Measure::kBytesPerCpuSecond:
      return static_cast<double>(result.bytes) / 1e9 / result.cpu_s;
    case Measure::kRowsPerCpuSecond:
      return static_cast<double>(result.records) / 1e6 / result.cpu_s;
    case Measure::kBytesPerSecond:
      return static_cast<double>(result.bytes) / 1e9 / result.wall_s;
    case Measure::kRowsPerSecond:
      return static_cast<double>(result.records) / 1e6 / result.wall_s;
  }
  return 0;
}

const char* UnitOf(Measure measure) {
  switch (measure) {
    case Measure::kBytesPerCpuSecond:
      return "GB per CPU s";
    case Measure::kRowsPerCpuSecond:
      return "M records per CPU s";
    case Measure::kBytesPerSecond:
      return "GB/s";
    case Measure::kRowsPerSecond:
      return "M records/s";
  }
  return "";
}

// One repetition of both sides, in turn.
struct Pass {
  LoopResult ours;
  LoopResult bare;
};
Pass RunBoth(WorkRun* run, bool ours_first) {
  Pass pass;
  if (ours_first) pass.ours = run->Ours();
  pass.bare = run->Bare();
  if (!ours_first) pass.ours = run->Ours();
  return pass;
}

// Runs one work and prints those of its rows that are asked for.
void RunWork(const FeedWork& work, const std::vector<FeedRow>& rows, int repetitions) {
  WorkRun run(work);
  const bool verified = run.Verify();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const Pass pass = RunBoth(&run, repetition % 2 == 0);
    for (const FeedRow& row : rows) {
      if (row.work != work.name) continue;
      PrintRow(row.name, {Amount(pass.ours, row.measure), Amount(pass.bare, row.measure)},
               UnitOf(row.measure), verified);
    }
  }
}

// Runs one work with so many threads, whatever its rows say.
void RunThreads(FeedWork work, bool in_bytes, int threads, int repetitions) {
  work.order.threads = threads;
  WorkRun run(work);
  const bool verified = run.Verify();
  const Measure clock = in_bytes ? Measure::kBytesPerSecond : Measure::kRowsPerSecond;
  const Measure cpu = in_bytes ? Measure::kBytesPerCpuSecond : Measure::kRowsPerCpuSecond;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const Pass pass = RunBoth(&run, repetition % 2 == 0);
    std::printf(
        "{\"name\": \"%s\", \"threads\": %d, \"ours\": %.6g, \"baseline\": %.6g, "
        "\"ours_cpu\": %.6g, \"baseline_cpu\": %.6g, \"unit\": \"%s\", \"verified\": %s}\n",
        work.name.c_str(), threads, Amount(pass.ours, clock), Amount(pass.bare, clock),
        Amount(pass.ours, cpu), Amount(pass.bare, cpu), UnitOf(clock), verified ? "true" : "false");
    std::fflush(stdout);
  }
}

// From a fresh process, as a training starts: the baseline is what is promised.
bool FirstBatch(RowFigure* figure) {
  const BenchFiles files = FirstBatchFiles();
  BringIntoMemory(files);
  Reader reader = ImageBatches(files, 0);
  Instance batch;
  const double start = NowSeconds();
  const ReadResult result = reader.TryReadNext(&batch);
  *figure = {1000 * (NowSeconds() - start), kFirstBatchLimitMs};
  return result == ReadResult::kRecord &&
         batch.front().lod[0].size() == std::min<std::uint64_t>(64, files.records) + 1;
}

std::uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  std::uint64_t bytes = 0;
  while (std::getline(status, line)) {
    for (const std::string_view kind : {"RssAnon:", "RssShmem:"}) {
      if (!line.starts_with(kind)) continue;
      bytes += 1024 * std::strtoull(line.c_str() + kind.size(), nullptr, 10);
    }
  }
  return bytes;
}

// The most anonymous memory at a time while a data set of 16 times the arena is read.
bool Memory(RowFigure* figure) {
  const BenchFiles files = FirstBatchFiles();
  std::atomic<std::uint64_t> peak{AnonymousBytes()};
  const std::jthread sampler([&peak](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      peak.store(std::max(peak.load(), AnonymousBytes()));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  Reader reader = ImageBatches(files, kMemoryArenaBytes);
  Instance batch;
  std::uint64_t records = 0;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) records += batch[0].lod[0].size() - 1;
  const double megabytes = 1 << 20;
  *figure = {static_cast<double>(std::max(peak.load(), AnonymousBytes())) / megabytes,
             static_cast<double>(kMemoryArenaBytes + kMemoryMargin) / megabytes};
  return records == files.records;
}

bool Named(const std::string& only, const std::string& name) {
  return ("," + only + ",").find("," + name + ",") != std::string::npos;
}
bool Asked(const std::string& only, const std::string& name) {
  return only.empty() || Named(only, name);
}

// Works whose threads are what tells them from another one are that one, here.
int RunThreads(const std::string& only, int threads, int repetitions) {
  for (const FeedWork& work : FeedWorks()) {
    if (!Asked(only, work.name) || work.name.ends_with("_2_threads")) continue;
    const FeedRow& row = *std::find_if(FeedRows().begin(), FeedRows().end(),
                                       [&](const FeedRow& any) { return any.work == work.name; });
    RunThreads(work, row.measure == Measure::kBytesPerCpuSecond, threads, repetitions);
  }
  return 0;
}

int RunRows(const std::string& only, int repetitions) {
  RowFigure figure;
  for (int i = 0; Named(only, "feed.first_batch") && i < repetitions; ++i) {
    const bool verified = FirstBatch(&figure);
    PrintRow("feed.first_batch", figure, "ms", verified);
  }
  for (int i = 0; Named(only, "feed.memory") && i < repetitions; ++i) {
    const bool verified = Memory(&figure);
    PrintRow("feed.memory", figure, "MiB", verified);
  }
  for (const FeedWork& work : FeedWorks()) {
    std::vector<FeedRow> rows;
    for (const FeedRow& row : FeedRows()) {
      if (row.work == work.name && Asked(only, row.name)) rows.push_back(row);
    }
    if (!rows.empty()) RunWork(work, rows, repetitions);
  }
  return 0;
}

// Set-ups are made when their benchmark first runs; one is held at a time.
WorkRun* RunOf(const std::string& name) {
  static std::string held_name;
  static std::unique_ptr<WorkRun> held;
  if (held_name != name) {
    held.reset();
    held = std::make_unique<WorkRun>(WorkOf(name));
    held_name = name;
  }
  return held.get();
}

void Report(benchmark::State& state, const LoopResult& sum) {
  state.counters["GB_per_CPU_s"] = static_cast<double>(sum.bytes) / 1e9 / sum.cpu_s;
  state.counters["Mrecords_per_CPU_s"] = static_cast<double>(sum.records) / 1e6 / sum.cpu_s;
  state.counters["GB_per_s"] = static_cast<double>(sum.bytes) / 1e9 / sum.wall_s;
}

void RunCase(benchmark::State& state, const std::string& name, bool ours) {
  WorkRun* run = RunOf(name);
  if (!run->Verify()) {
    state.SkipWithError("the digests differ");
    return;
  }
  LoopResult sum;
  for (auto iteration : state) {
    const LoopResult result = ours ? run->Ours() : run->Bare();
    sum.cpu_s += result.cpu_s;
    sum.wall_s += result.wall_s;
    sum.records += result.records;
    sum.bytes += result.bytes;
  }
  Report(state, sum);
}

int RunBenchmarks(int argc, char** argv) {
  for (const FeedWork& work : FeedWorks()) {
    for (const bool ours : {true, false}) {
      const std::string name = work.name + (ours ? "/ringfeed" : "/bare_loop");
      benchmark::RegisterBenchmark(name.c_str(), RunCase, work.name, ours)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
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
  int threads = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--rows-json") rows_json = true;
    if (argument == "--only" && has_value) only = argv[i + 1];
    if (argument == "--repetitions" && has_value) repetitions = std::atoi(argv[i + 1]);
    if (argument == "--threads" && has_value) threads = std::atoi(argv[i + 1]);
  }
  if (threads > 0) return RunThreads(only, threads, repetitions);
  return rows_json ? RunRows(only, repetitions) : RunBenchmarks(argc, argv);
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) { return ringfeed::bench::RunMain(argc, argv); }
