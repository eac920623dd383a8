#pragma once

#include <cstdint>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// Of RandomData: the range of the numbers, their seed and how many instances.
struct RandomDataOptions {
  double low = 0;   ///< values are at least this
  double high = 1;  ///< and below this, if that is not low itself; whole numbers likewise
  std::uint64_t seed = 0;
  std::uint64_t count = 0;  ///< instances of a pass; 0: without end
};

/// Instances of random numbers, evenly distributed, of any numeric dtype: data without files. Slots
/// have no open dimensions and no LoD. Value v of slot s of instance n is a pure function of (seed,
/// n, s, v), the same in every pass and on every machine. Throws Error if low is above high, or
/// a dtype does not hold what is between.
Reader RandomData(std::vector<SlotSpec> slots, const RandomDataOptions& options = {},
                  const OpenOptions& open = {});

}  // namespace ringfeed
