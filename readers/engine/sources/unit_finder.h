#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/engine/sources/needed_unit.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

/// Asks the indexes of many rows at once where they stand. One thread.
class UnitFinder {
 public:
  explicit UnitFinder(const OpenedFiles* files) : files_(files) {}

  /// Puts the rows' units in place of what `found` held. Units that an index cannot give are lost
  /// for good.
  void Find(std::span<const RowNumber> rows, NeededUnits* found);

 private:
  void AskIndex(std::size_t file, std::span<const std::uint32_t> places, NeededUnits* found);

  const OpenedFiles* const files_;
  std::vector<std::uint32_t> places_;   ///< of rows, those of a file behind each other
  std::vector<std::uint64_t> records_;  ///< what one index is asked for
  std::vector<RecordUnit> units_;       ///< what it says
};

}  // namespace ringfeed
