#pragma once

#include <cstdint>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed {

struct RandomDataOptions {
  double low = 0;   ///< values are at least this
  double high = 1;  ///< and below this; whole numbers up to the last one below it
  std::uint64_t seed = 0;
  std::uint64_t count = 0;  ///< instances of a pass; 0: without end
};

/// Instances of random numbers, evenly distributed, of any numeric dtype: data without files. Slots
/// have no open dimensions and no LoD. Value v of slot s of instance n is a pure function of (seed,
/// n, s, v), the same in every pass and on every machine. Throws Error where low is not below high,
/// or a dtype does not hold them.
Reader RandomData(std::vector<SlotSpec> slots, const RandomDataOptions& options = {},
                  const OpenOptions& open = {});

}  // namespace ringfeed
