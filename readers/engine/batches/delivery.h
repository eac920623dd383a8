#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/blocks/block.h"
#include "readers/order/plan_clock.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// What goes out to the consumer: one of the two.
struct Delivery {
  /// Records that are delivered in their slabs, without a copy.
  struct Records {
    std::vector<RowRef> refs;  ///< what is held, if the rows come from several blocks
    Block* block = nullptr;    ///< or one block: its rows from first_row on
    std::uint32_t first_row = 0;
    OrderSpan span;          ///< row j is place first_place + j
    std::uint64_t pass = 0;  ///< that the first of them is of
    std::uint32_t rows = 0;
    std::uint64_t bytes = 0;           ///< of the records; only if asked for
    std::vector<RecordSpan> gathered;  ///< the views, if they are no contiguous piece of a block
    std::span<const RecordSpan> records;

    /// A row and its block; no block if all records are damaged, and none is held.
    RowRef RefOf(std::uint32_t row) const {
      if (block != nullptr) return {block, first_row + row};
      return refs.empty() ? RowRef() : refs[row];
    }
    /// Block::NumberOf of a row; kNoRow if no block is held.
    std::uint64_t NumberOf(std::uint32_t row) const {
      const RowRef ref = RefOf(row);
      return ref.block == nullptr ? kNoRow : ref.block->NumberOf(ref.row);
    }
    /// Block::ShrunkAt of a row that is not damaged.
    bool ShrunkAt(std::uint32_t row) const {
      const RowRef ref = RefOf(row);
      return !records[row].damaged() && ref.block->ShrunkAt(ref.row);
    }
  };

  BatchBuffer* batch = nullptr;
  std::unique_ptr<Records> records;
  bool seen = false;  ///< see Run::NoteSeen
};

}  // namespace ringfeed
