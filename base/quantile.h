#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringfeed {

/// The smallest of the values that at least `share` of all lie at or below: 0.5 is the lower
/// median. 0 if there is no value.
inline double QuantileOf(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace ringfeed
