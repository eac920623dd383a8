#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/formats/record_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

inline constexpr std::uint32_t kNoFile = ~std::uint32_t{0};

/// The unit that a row is taken out of: where it stands in its file, then where it stands in
/// memory.
struct NeededUnit {
  std::uint32_t file = kNoFile;  ///< kNoFile: the place holds no row
  std::uint32_t loss = 0;        ///< 1 + index of why it cannot be had; 0: it can
  std::uint64_t record = 0;      ///< number of the row in its file
  RecordUnit unit;
  std::size_t bytes = 0;  ///< of the unit that are looked at
  const std::byte* data = nullptr;
};

/// Why a unit cannot be had.
struct UnitLoss {
  Status status;
  bool fatal = false;  ///< not a matter of the data: it fails whatever is done with damage
};

/// The units of rows and what became of those that cannot be had.
struct NeededUnits {
  std::vector<NeededUnit> units;
  std::vector<UnitLoss> losses;

  void Lose(NeededUnit* unit, const Status& status, bool fatal = false) {
    losses.push_back({status, fatal});
    unit->loss = static_cast<std::uint32_t>(losses.size());
  }
};

}  // namespace ringfeed
