#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// Memory for values that are not in a record as the column has them. Locations point here.
class LocatedStorage {
 public:
  /// `bytes` that live until Clear, or as long as what Take gave.
  std::byte* Allocate(std::size_t bytes) {
    bytes = std::max<std::size_t>(bytes, 1);  // never null
    if (bytes > left_) {
      if (pieces_ == nullptr) pieces_ = std::make_shared<Pieces>();
      left_ = std::max(bytes, kPieceBytes);
      // Not cleared: every byte is written before it is located.
      pieces_->emplace_back(new std::byte[left_]);
      next_ = pieces_->back().get();
    }
    left_ -= bytes;
    return std::exchange(next_, next_ + bytes);
  }
  /// Gives back what follows `end`, which is in the piece that was allocated last.
  void EndAt(std::byte* end) {
    left_ += static_cast<std::size_t>(next_ - end);
    next_ = end;
  }
  std::shared_ptr<const void> Take() {
    left_ = 0;
    return std::exchange(pieces_, nullptr);
  }
  /// Drops everything, but keeps the last piece for its next use.
  void Clear() {
    if (pieces_ == nullptr || pieces_->empty()) return;
    if (pieces_->size() > 1) {
      pieces_ = nullptr;
      left_ = 0;
      return;
    }
    left_ += static_cast<std::size_t>(next_ - pieces_->back().get());
    next_ = pieces_->back().get();
  }

 private:
  static constexpr std::size_t kPieceBytes = 64 * 1024;
  using Pieces = std::vector<std::unique_ptr<std::byte[]>>;

  std::shared_ptr<Pieces> pieces_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

/// Points a location at `bytes`, which are `units` of the field. False if they are too many.
inline bool LocateAt(const std::byte* data, std::size_t bytes, std::size_t units,
                     FieldLocation* at) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (bytes > kMost || units > kMost) return false;
  at->data = data;
  at->bytes = static_cast<std::uint32_t>(bytes);
  at->units = static_cast<std::uint32_t>(units);
  return true;
}

/// The second phase if a location is the value itself, as it goes into the batch.
inline void WriteLocated(const std::vector<FieldSpec>& fields, std::size_t rows,
                         const FieldLocation* locations, std::span<const ColumnTarget> targets) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const FieldLocation& from = locations[row * fields.size() + f];
      const std::size_t unit = fields[f].unit_bytes();
      std::size_t at = row * unit;
      if (fields[f].ragged()) {
        std::int64_t* offsets = targets[f].offsets;
        at = static_cast<std::size_t>(offsets[row]) * unit;
        offsets[row + 1] = offsets[row] + static_cast<std::int64_t>(from.units);
      }
      std::copy_n(from.data, from.bytes, targets[f].data + at);
    }
  }
}

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
      (*from)[f] = {target.data != nullptr ? target.data + row * row_bytes_[f] : nullptr,
                    target.offsets != nullptr ? target.offsets + row : nullptr};
    }
  }

 private:
  std::vector<std::size_t> row_bytes_;  ///< 0 of ragged fields
};

}  // namespace ringfeed
