#include "readers/chain/advice.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace ringfeed {
namespace {

/// A loop that waits for less than this is slower than the data.
constexpr double kLittle = 0.05;
constexpr double kHalf = 0.5;
/// Ranks whose loads differ by less are as good as even.
constexpr double kUneven = 1.05;

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

std::string Capital(std::string text) {
  if (text.starts_with("the ") || text.starts_with("your ") || text.starts_with("whoever ")) {
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  }
  return text;
}

std::string WhoWrites(const ChainFacts& facts) {
  const std::string parser = "the parser \"" + facts.parser + "\"";
  if (!facts.function.empty()) {
    return Capital(facts.function) + (facts.parser.empty() ? "" : " after " + parser);
  }
  if (facts.makes_more)
    return "What is made of fields after " + parser + " (Map, Truncate, Pad, Pack)";
  return facts.parser.empty() ? "The copy into batches" : Capital(parser);
}

std::string ReadingAdvice(const ChainFacts& facts, const PipelineStats& stats) {
  const std::string more = MoreThreads(facts);
  if (!facts.input.empty()) {
    return Capital(facts.input) + " takes most of the threads' time: that is the slow end.";
  }
  if (!stats.io.empty() && stats.io.back().path == IoPath::kMmap) {
    return "Pages of mapped files take most of the threads' time: " + more + " would move it.";
  }
  return "Copies out of the page cache" + PathOf(stats) +
         " take most of the threads' time: " + more + ", or files that are mapped, would move it.";
}

std::string AdviceFor(const std::string& stage, const ChainFacts& facts,
                      const PipelineStats& stats) {
  const std::string more = MoreThreads(facts);
  if (stage == "read") return ReadingAdvice(facts, stats);
  if (stage == "filter") {
    return "Functions that look at records (Filter, groups of batches) take most of the threads' "
           "time: " +
           more + ", or less work in them, would move it.";
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
         (facts.function.empty() ? ", or fewer or smaller fields, would move it."
                                 : ", or less work in it, would move it.");
}

/// How long the loop ran, and how long it waited for data. The first batch is left out: the time
/// until it comes says nothing about the others.
struct LoopTime {
  double all_s = 0;
  double waited_s = 0;
};

LoopTime TimeOf(const PipelineStats& stats) {
  const LoopTime whole{stats.wall_s, stats.stages.back().wait_s};
  const double first_s = std::min(stats.first_batch_s, whole.waited_s);
  const bool more_came = stats.batches > 1 && stats.wall_s > first_s;
  return more_came ? LoopTime{whole.all_s - first_s, whole.waited_s - first_s} : whole;
}

/// What planned batches could do for a loop that waits for its costliest rank.
std::string BalanceAdvice(const PlannedStats& planned) {
  if (planned.imbalance <= kUneven) return ", so nothing here would make it faster.";
  return ". By its lengths the costliest rank of a step has " + Percent(planned.imbalance - 1, 1) +
         " more to do than the mean of all ranks: Balance, or more steps of Balance::alike, may "
         "make that less.";
}

Cause OfConsumer(const LoopTime& loop, const PipelineStats& stats) {
  return {0, "consumer: the loop that takes the batches is the slow end",
          "The loop that takes the batches is the slow end: it waited for data " +
              Percent(loop.waited_s, loop.all_s) + " of the time" + BalanceAdvice(stats.planned)};
}

Cause OfMedium(const StageStats& read, const ChainFacts& facts, const PipelineStats& stats) {
  if (!facts.input.empty()) {
    return {read.wait_s, "read: the threads wait for the medium most of the time",
            "The threads wait for " + facts.input + " most of the time: that is the slow end."};
  }
  const bool compressed = std::ranges::any_of(stats.stages, [](const StageStats& stage) {
    return stage.name == "decompress" && stage.busy_s > 0;
  });
  return {read.wait_s, "read: the threads wait for the medium most of the time",
          "The threads wait for the disk" + PathOf(stats) + " most of the time: a faster disk, " +
              (compressed ? "or files that fit in memory, would move it."
                          : "files that fit in memory, or a compressed format would move it.")};
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

Cause Unexplained() {
  return {
      0, "idle: the threads rest most of the time",
      "The loop waits, and so do the threads: for records that come earlier in the order, or for "
      "room. No stage is the slow end."};
}

}  // namespace

void ExplainSpeed(const ChainFacts& facts, PipelineStats* stats) {
  const LoopTime loop = TimeOf(*stats);
  const auto say = [stats](const Cause& cause) {
    stats->bottleneck = cause.what;
    stats->advice = cause.advice;
  };
  if (loop.all_s > 0 && loop.waited_s < kLittle * loop.all_s) return say(OfConsumer(loop, *stats));
  std::vector<Cause> causes;
  double slots_s = 0;
  for (const StageStats& stage : stats->stages) {
    if (stage.name == "idle" || stage.name == "deliver") continue;
    causes.push_back(OfWork(stage, facts, *stats));
    if (stage.name == "read") causes.push_back(OfMedium(stage, facts, *stats));
    if (stage.name != "write") continue;
    causes.push_back(OfSlots(stage));
    slots_s = stage.wait_s;
  }
  const auto worst =
      std::max_element(causes.begin(), causes.end(),
                       [](const Cause& a, const Cause& b) { return a.seconds < b.seconds; });
  if (worst == causes.end() || worst->seconds <= 0) return;
  // Batches that are not taken fill the slots: the loop is slow if it seldom waits.
  const bool of_slots = worst->seconds <= slots_s;
  if (of_slots && loop.waited_s < kHalf * loop.all_s) return say(OfConsumer(loop, *stats));
  if (worst->seconds < kLittle * loop.waited_s) return say(Unexplained());
  say(*worst);
}

}  // namespace ringfeed
