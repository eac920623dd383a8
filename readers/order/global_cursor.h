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

/// All rows of the files of a pass, numbered in the order of the list, in the order of a keyed
/// permutation of (seed, epoch, kGlobalOrder): a place is a row without a table.
class GlobalCursor final : public RowCursor {
 public:
  /// `layout` must outlive the cursor.
  GlobalCursor(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed);

  std::uint64_t Places(std::uint64_t pass) override;
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;
  bool SeeksAtOnce() const override { return true; }

 private:
  /// Files of a pass that follow each other in the list.
  struct Stretch {
    std::uint64_t behind = 0;  ///< rows of the pass up to its end
    RowNumber end = 0;         ///< number of its last row + 1
  };

  void Plan(std::uint64_t pass);
  std::vector<Stretch> StretchesOf(std::uint64_t pass) const;

  const RowLayout& layout_;
  const OrderOptions options_;
  const std::uint64_t seed_;

  std::optional<std::uint64_t> planned_pass_;
  std::vector<Stretch> stretches_;
  std::optional<KeyedPermutation> order_;
  std::uint64_t place_ = 0;
};

}  // namespace ringfeed
