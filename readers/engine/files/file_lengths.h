#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "readers/engine/files/file_table.h"
#include "readers/index/length_column.h"
#include "readers/order/length_table.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a step of the chain makes of the units of a row: Truncate cuts them, Pad fills them up.
struct LengthChange {
  std::uint32_t cut_at = LengthTable::kHole;  ///< no row keeps more
  std::uint32_t multiple = 1;
};

/// The units of the records of many files, from the files' columns. Immutable; thread safe.
class FileLengths final : public LengthTable {
 public:
  using Columns = std::vector<std::shared_ptr<const LengthColumn>>;

  /// `columns` are of the table's files in their order, null of one without rows; each has as many
  /// records as its file. `changes` are in the chain's order.
  FileLengths(const FileTable& table, Columns columns, std::vector<LengthChange> changes);

  Status UnitsOf(std::span<const RowNumber> rows, std::span<std::uint32_t> units) const override;
  std::uint32_t most() const override { return most_; }
  /// Tells the lengths of the data set from all others, for positions. Without the changes.
  std::uint64_t digest() const { return digest_; }

 private:
  std::uint32_t Changed(std::uint32_t units) const;

  const RowFiles files_;
  const Columns columns_;
  const std::vector<LengthChange> changes_;
  std::uint32_t most_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace ringfeed
