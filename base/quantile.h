#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringfeed {

/// The value that `share` of all lie at or below, one of them: 0.5 is the lower median. 0 where
/// there is none.
inline double QuantileOf(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace ringfeed
