#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// The targets of a part of a call's rows. Immutable.
class RowTargets {
 public:
  explicit RowTargets(const std::vector<FieldSpec>& fields) {
    for (const FieldSpec& field : fields) {
      row_bytes_.push_back(field.ragged() ? 0 : field.unit_bytes());
    }
  }

  /// Fills `from` with the targets of the rows from `row` on, of `targets`' first fields.
  void From(std::span<const ColumnTarget> targets, std::size_t row,
            std::vector<ColumnTarget>* from) const {
    from->resize(row_bytes_.size());
    for (std::size_t f = 0; f < row_bytes_.size(); ++f) {
      const ColumnTarget& target = targets[f];
      (*from)[f] = {target.data + row * row_bytes_[f],
                    target.offsets != nullptr ? target.offsets + row : nullptr};
    }
  }

 private:
  std::vector<std::size_t> row_bytes_;  ///< 0 of ragged fields
};

}  // namespace ringfeed
