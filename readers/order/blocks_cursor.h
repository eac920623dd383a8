#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/keyed_permutation.h"
#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

/// The stripes of all files of a pass, numbered in the order of the list, in the order of a keyed
/// permutation of (seed, epoch, kBlockOrder); the rows of a stripe in their own. From its beginning
/// a pass needs no table. To start within one it counts the rows of the stripes, once for each
/// pass: eight bytes each.
class BlocksCursor final : public RowCursor {
 public:
  /// `layout` must outlive the cursor.
  BlocksCursor(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed);

  std::uint64_t Places(std::uint64_t pass) override;
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;

 private:
  void Plan(std::uint64_t pass);
  /// The rows of the stripe that turn `turn` reads.
  Status RowsOfTurn(std::uint64_t turn, RowNumber* first, RowNumber* end) const;
  Status CountTurns();

  const RowLayout& layout_;
  const OrderOptions options_;
  const std::uint64_t seed_;

  std::optional<std::uint64_t> planned_pass_;
  std::vector<std::size_t> files_;           ///< in the order of the list
  std::vector<std::uint64_t> first_stripe_;  ///< of each, and the number of all
  std::uint64_t places_ = 0;
  std::optional<KeyedPermutation> order_;
  std::vector<std::uint64_t> rows_behind_;  ///< rows of the turns up to each; empty: not counted

  std::uint64_t turn_ = 0;
  RowNumber row_ = 0;  ///< the rest of the stripe that was taken
  RowNumber end_ = 0;
};

}  // namespace ringfeed
