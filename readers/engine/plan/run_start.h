#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "readers/order/plan_clock.h"

namespace ringfeed {

/// Starts what a user's decorator reads once more, for a further pass; false where that cannot be.
/// Empty where a chain's source is not such a decorator.
using RewindInput = std::function<bool()>;

/// Where a run of a chain begins.
struct RunStart {
  std::uint64_t batch = 0;  ///< over all runs, of this one's batch number 0
  PlanMark mark{};          ///< only by index anything but the beginning, but for its outputs
  std::string mix{};        ///< counts of a mixture's sets there (MixState); empty: by their number
  bool by_index = false;    ///< as it is read from there
  /// The position is of a chain that does something else with damage: what is left out may not meet
  /// any that has no record's number, since the order behind it is another one then.
  bool other_policy = false;
};

}  // namespace ringfeed
