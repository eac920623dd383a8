#include "readers/chain/advice.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace ringfeed {
namespace {

/// A loop that waits for less than this is slower than the data.
constexpr double kLittle = 0.05;

struct Cause {
  double seconds = 0;  ///< of all threads together
  std::string what;    ///< PipelineStats::bottleneck
  std::string advice;
};

std::string Percent(double part, double whole) {
  return std::to_string(static_cast<int>(whole > 0 ? 100 * part / whole + 0.5 : 0)) + " %";
}

std::string MoreThreads(const ChainFacts& facts) {
  if (facts.threads >= facts.cpus) return "more CPUs";
  return "more threads (there are " + std::to_string(facts.threads) + " on " +
         std::to_string(facts.cpus) + " CPUs)";
}

/// "io_uring", of the file that was opened last.
std::string PathOf(const PipelineStats& stats) {
  return stats.io.empty() ? "" : " (" + std::string(IoPathName(stats.io.back().path)) + ")";
}

std::string WhoWrites(const ChainFacts& facts) {
  const std::string parser = "the parser \"" + facts.parser + "\"";
  if (facts.makes_more)
    return "What is made of fields after " + parser + " (Map, Truncate, Pad, Pack)";
  return facts.parser.empty() ? "The copy into batches" : "T" + parser.substr(1);
}

std::string AdviceFor(const std::string& stage, const ChainFacts& facts,
                      const PipelineStats& stats) {
  const std::string more = MoreThreads(facts);
  if (stage == "read") {
    return "Copies out of the page cache" + PathOf(stats) +
           " take most of the threads' time: " + more +
           ", or files that are mapped, would move it.";
  }
  if (stage == "decompress") {
    return "Decompression takes most of the threads' time: " + more +
           ", or a lighter compression, would move it.";
  }
  if (stage == "frame") {
    return "Framing and checksums take most of the threads' time: " + more +
           ", or a format without checksums (flat rows, arrays, tokens), would move it.";
  }
  if (stage == "plan") {
    return "The order takes most of the threads' time, record by record: larger records or "
           "batches, or a shuffle of fewer rows, would move it.";
  }
  return WhoWrites(facts) + " takes most of the threads' time: " + more +
         ", or fewer or smaller fields, would move it.";
}

Cause OfConsumer(const PipelineStats& stats) {
  const double waited = stats.stages.back().wait_s;
  return {0, "consumer: it waited for batches less than 5 % of the time",
          "The loop that takes the batches is the slow end: it waited for data " +
              Percent(waited, stats.wall_s) +
              " of the time, so nothing here would make it faster."};
}

Cause OfMedium(const StageStats& read, const ChainFacts& facts, const PipelineStats& stats) {
  if (!facts.input.empty()) {
    return {read.wait_s, "read: the threads wait for the medium most of the time",
            "The threads wait for " + facts.input + " most of the time: that is the slow end."};
  }
  return {read.wait_s, "read: the threads wait for the medium most of the time",
          "The threads wait for the disk" + PathOf(stats) +
              " most of the time: a faster disk, files that fit in memory, or a compressed format "
              "would move it."};
}

Cause OfSlots(const StageStats& write) {
  return {write.wait_s, "write: the threads wait for a free batch most of the time",
          "All batches in memory are held or on their way: let go of them sooner, or raise the "
          "slots."};
}

Cause OfWork(const StageStats& stage, const ChainFacts& facts, const PipelineStats& stats) {
  return {stage.busy_s, stage.name + ": most of the reader threads' work",
          AdviceFor(stage.name, facts, stats)};
}

}  // namespace

void ExplainSpeed(const ChainFacts& facts, PipelineStats* stats) {
  const double wall_s = stats->wall_s;
  if (wall_s > 0 && stats->stages.back().wait_s < kLittle * wall_s) {
    const Cause consumer = OfConsumer(*stats);
    stats->bottleneck = consumer.what;
    stats->advice = consumer.advice;
    return;
  }
  std::vector<Cause> causes;
  for (const StageStats& stage : stats->stages) {
    if (stage.name == "idle" || stage.name == "deliver") continue;
    causes.push_back(OfWork(stage, facts, *stats));
    if (stage.name == "read") causes.push_back(OfMedium(stage, facts, *stats));
    if (stage.name == "write") causes.push_back(OfSlots(stage));
  }
  const auto worst =
      std::max_element(causes.begin(), causes.end(),
                       [](const Cause& a, const Cause& b) { return a.seconds < b.seconds; });
  if (worst == causes.end() || worst->seconds <= 0) return;
  stats->bottleneck = worst->what;
  stats->advice = worst->advice;
}

}  // namespace ringfeed
