#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/loop_result.h"

namespace ringfeed::bench {

/// One figure: ringfeed's way and a baseline that does the same work.
struct PairedRow {
  std::string name;
  std::string unit;  ///< of the rates: "records/CPU s"
  std::function<LoopResult(bool digest)> ours;
  std::function<LoopResult(bool digest)> baseline;
};

/// Runs every row: once with digests, which must agree, once to warm up, then `times` times in
/// turn. Prints a line of JSON for each time and row: name, ours, baseline (rates), unit, verified.
/// Returns the exit status of the program.
int PrintPairedRows(const std::vector<PairedRow>& rows, int times);

/// Registers both sides of every row with Google Benchmark ("name/ours", "name/baseline"); a
/// digest that differs is an error of the benchmark.
void RegisterPairedRows(const std::vector<PairedRow>& rows);

/// The main of a benchmark program of paired rows: `--rows-json[=TIMES]` prints them, anything else
/// is Google Benchmark's.
int PairedMain(int argc, char** argv, const std::function<std::vector<PairedRow>()>& rows);

}  // namespace ringfeed::bench
