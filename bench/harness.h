#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ringfeed::bench {

/// What one side took and moved in one repetition.
struct LoopResult {
  double cpu_s = 0;
  double wall_s = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;   ///< of payloads
  std::uint64_t digest = 0;  ///< of what was delivered, if asked for
  std::string failure{};     ///< what went wrong, or "skipped: why"; empty if nothing did
};

/// Adds what another took and moved.
inline LoopResult& operator+=(LoopResult& sum, const LoopResult& other) {
  sum.cpu_s += other.cpu_s;
  sum.wall_s += other.wall_s;
  sum.records += other.records;
  sum.bytes += other.bytes;
  return sum;
}

/// What is compared of two results.
struct Measure {
  const char* unit = nullptr;
  double (*of)(const LoopResult& result) = nullptr;
};

inline constexpr Measure kGbPerCpuS{"GB per CPU s", [](const LoopResult& r) {
                                      return static_cast<double>(r.bytes) / 1e9 / r.cpu_s;
                                    }};
inline constexpr Measure kGbPerS{
    "GB/s", [](const LoopResult& r) { return static_cast<double>(r.bytes) / 1e9 / r.wall_s; }};
inline constexpr Measure kRecordsPerCpuS{
    "records/CPU s", [](const LoopResult& r) { return static_cast<double>(r.records) / r.cpu_s; }};
inline constexpr Measure kMillionsPerCpuS{"M records per CPU s", [](const LoopResult& r) {
                                            return static_cast<double>(r.records) / 1e6 / r.cpu_s;
                                          }};
inline constexpr Measure kMillionsPerS{"M records/s", [](const LoopResult& r) {
                                         return static_cast<double>(r.records) / 1e6 / r.wall_s;
                                       }};
inline constexpr Measure kPercentOfACore{
    "% of a core", [](const LoopResult& r) { return 100 * r.cpu_s / r.wall_s; }};
inline constexpr Measure kMs{"ms", [](const LoopResult& r) { return 1000 * r.wall_s; }};

/// Two sides that do the same work, set up and ready.
struct Pair {
  std::function<LoopResult()> ours;
  /// The plain loop or the program beside it. If there is none, the limit that is promised.
  std::function<LoopResult()> baseline;
  /// Not timed: empty if both sides deliver the same, else what is wrong, or "skipped: why".
  std::function<std::string()> verify{};
  bool warm_up = true;  ///< one run of each that is not measured
};

/// A pair whose sides can digest what they deliver: both digests, records and bytes must agree.
Pair Digested(std::function<LoopResult(bool digest)> ours,
              std::function<LoopResult(bool digest)> baseline);

/// A row of the table.
struct Row {
  std::string name;
  Measure measure;
  Measure per_cpu{};  ///< of a curve's point: the same by CPU time
};

/// A declaration: the rows that a pair gives, and how the pair is set up.
struct Work {
  std::vector<Row> rows;
  std::function<Pair()> start;
  bool named = false;  ///< is measured only if it is named: each repetition wants its own process
};

/// The declarations of a program, in the order in which they are measured. Each program defines it.
/// `threads` is that of --threads, 0 without it.
std::vector<Work> Works(int threads);

/// True if RINGFEED_BENCH_SMOKE asks for data that only shows that a benchmark runs.
bool SmokeRun();
/// The first, or the second in such a run.
inline std::uint64_t Sized(std::uint64_t full, std::uint64_t smoke) {
  return SmokeRun() ? smoke : full;
}

}  // namespace ringfeed::bench
