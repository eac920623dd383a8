#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/loop_result.h"

namespace ringfeed::bench {

double RecordsPerCpuSecond(const LoopResult& result);
double GigabytesPerSecond(const LoopResult& result);  ///< by the clock

/// One figure: ringfeed's way and a baseline that does the same work.
struct PairedRow {
  std::string name;
  std::string unit;  ///< of the rates: "records/CPU s"
  std::function<LoopResult(bool digest)> ours;
  std::function<LoopResult(bool digest)> baseline;
  double (*rate)(const LoopResult& result) = RecordsPerCpuSecond;
};

/// The main of a benchmark program of paired rows: `--rows-json[=TIMES]` prints them, anything else
/// is Google Benchmark's.
int PairedMain(int argc, char** argv, const std::function<std::vector<PairedRow>()>& rows);

}  // namespace ringfeed::bench
