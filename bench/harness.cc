// The main of every benchmark program: runs its declarations, and prints a line of JSON for each
// repetition and row:
//   {"name", "ours", "baseline", "unit", "verified"}   or   {"name", "skipped"}
//
//   NAME_bench [--only ROW,…] [--repetitions N] [--threads N] [--list]
//
// Both sides of a row take turns in one process, every other time the other way round. What is
// verified is not timed. --threads N: points of curves, with N threads beside N loops. They have
// "threads" and, per CPU second, "ours_cpu" and "baseline_cpu", too. RINGFEED_BENCH_SMOKE asks for
// small data. Exit status: 0 all that could be measured is right, 1 something is not, 2 usage.
#include "bench/harness.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

namespace ringfeed::bench {
namespace {

constexpr std::string_view kSkipped = "skipped: ";

struct Options {
  std::string only;
  int repetitions = 5;
  int threads = 0;
  bool list = false;
};

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--list") {
      options->list = true;
      continue;
    }
    if (++i == argc) return false;
    if (option == "--only") {
      options->only = argv[i];
    } else if (option == "--repetitions") {
      options->repetitions = std::atoi(argv[i]);
    } else if (option == "--threads") {
      options->threads = std::atoi(argv[i]);
    } else {
      return false;
    }
  }
  return options->repetitions > 0 && options->threads >= 0;
}

bool IsNamed(const Options& options, const std::string& name) {
  return ("," + options.only + ",").find("," + name + ",") != std::string::npos;
}

// Those of its rows that are asked for.
std::vector<Row> AskedRows(const Work& work, const Options& options) {
  if (options.only.empty()) return work.named && !options.list ? std::vector<Row>() : work.rows;
  std::vector<Row> asked;
  for (const Row& row : work.rows) {
    if (IsNamed(options, row.name)) asked.push_back(row);
  }
  return asked;
}

void PrintSkipped(const Row& row, std::string_view why) {
  std::printf("{\"name\": \"%s\", \"skipped\": \"%s\"}\n", row.name.c_str(),
              std::string(why.substr(kSkipped.size())).c_str());
  std::fflush(stdout);
}

// Of a side that failed there may be nothing to divide by.
double ValueOf(const Measure& measure, const LoopResult& result) {
  const double value = measure.of(result);
  return std::isfinite(value) ? value : 0;
}

void Print(const Row& row, const LoopResult& ours, const LoopResult& baseline, int threads,
           bool verified) {
  std::printf("{\"name\": \"%s\", \"ours\": %.6g, \"baseline\": %.6g, ", row.name.c_str(),
              ValueOf(row.measure, ours), ValueOf(row.measure, baseline));
  if (threads > 0) {
    std::printf("\"threads\": %d, \"ours_cpu\": %.6g, \"baseline_cpu\": %.6g, ", threads,
                ValueOf(row.per_cpu, ours), ValueOf(row.per_cpu, baseline));
  }
  std::printf("\"unit\": \"%s\", \"verified\": %s}\n", row.measure.unit,
              verified ? "true" : "false");
  std::fflush(stdout);
}

bool IsSkipped(const std::string& failure) { return failure.starts_with(kSkipped); }

void Complain(const Row& row, const std::string& failure) {
  if (!failure.empty()) std::fprintf(stderr, "%s: %s\n", row.name.c_str(), failure.c_str());
}

// False if something is wrong.
bool Run(const Pair& pair, const std::vector<Row>& rows, const Options& options) {
  const std::string wrong = pair.verify ? pair.verify() : "";
  if (IsSkipped(wrong)) {
    for (const Row& row : rows) PrintSkipped(row, wrong);
    return true;
  }
  Complain(rows.front(), wrong);
  if (pair.warm_up) {
    static_cast<void>(pair.ours());
    static_cast<void>(pair.baseline());
  }
  bool all_verified = true;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    const bool ours_first = repetition % 2 == 0;
    LoopResult ours;
    if (ours_first) ours = pair.ours();
    const LoopResult baseline = pair.baseline();
    if (!ours_first) ours = pair.ours();
    const std::string& failure = ours.failure.empty() ? baseline.failure : ours.failure;
    if (!IsSkipped(failure)) Complain(rows.front(), failure);
    const bool verified = wrong.empty() && (failure.empty() || IsSkipped(failure));
    all_verified = all_verified && verified;
    for (const Row& row : rows) {
      if (IsSkipped(failure)) {
        PrintSkipped(row, failure);
      } else {
        Print(row, ours, baseline, options.threads, verified);
      }
    }
  }
  return all_verified;
}

// A work that fails leaves the others' rows.
bool Run(const Work& work, const std::vector<Row>& rows, const Options& options) try {
  return Run(work.start(), rows, options);
} catch (const std::exception& error) {
  Complain(rows.front(), error.what());
  for (const Row& row : rows) {
    std::printf(
        "{\"name\": \"%s\", \"ours\": 0, \"baseline\": 0, \"unit\": \"%s\", "
        "\"verified\": false}\n",
        row.name.c_str(), row.measure.unit);
  }
  return false;
}

int Main(const Options& options) {
  bool good = true;
  for (const Work& work : Works(options.threads)) {
    const std::vector<Row> rows = AskedRows(work, options);
    if (options.list) {
      for (const Row& row : rows) std::printf("%s\n", row.name.c_str());
    } else if (!rows.empty()) {
      good = Run(work, rows, options) && good;
    }
  }
  return good ? 0 : 1;
}

}  // namespace

Pair Digested(std::function<LoopResult(bool digest)> ours,
              std::function<LoopResult(bool digest)> baseline) {
  const auto verify = [=]() -> std::string {
    const LoopResult mine = ours(true);
    const LoopResult theirs = baseline(true);
    if (mine.digest != theirs.digest) return "the digests of both sides differ";
    if (mine.records != theirs.records || mine.bytes != theirs.bytes) {
      return "both sides count otherwise";
    }
    return mine.failure.empty() ? theirs.failure : mine.failure;
  };
  return {[=] { return ours(false); }, [=] { return baseline(false); }, verify};
}

bool SmokeRun() { return std::getenv("RINGFEED_BENCH_SMOKE") != nullptr; }

}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  ringfeed::bench::Options options;
  if (!ringfeed::bench::ParseOptions(argc, argv, &options)) {
    std::fprintf(stderr, "%s [--only ROW,…] [--repetitions N] [--threads N] [--list]\n", argv[0]);
    return 2;
  }
  return ringfeed::bench::Main(options);
}
