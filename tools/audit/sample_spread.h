#pragma once

#include <vector>

namespace ringfeed::tools {

/// Where samples lie.
struct SampleSpread {
  double median = 0;
  double min = 0;
  double max = 0;
};
/// Zeros where there are none.
SampleSpread SpreadOf(std::vector<double> samples);

}  // namespace ringfeed::tools
