#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/memory/arena.h"
#include "base/pending_copy.h"
#include "readers/engine/blocks/block.h"
#include "readers/engine/blocks/row_tally.h"
#include "readers/order/plan_clock.h"
#include "readers/parsers/parser.h"
#include "ringfeed/instance.h"

namespace ringfeed {

/// The row that a PendingSum belongs to.
struct SumRow {
  Block* block = nullptr;
  std::uint32_t src_row = 0;
  std::uint32_t row = 0;  ///< of the batch
};

/// Rows of a batch that have no record.
struct MissingRows {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// A batch on its way: planned by the planner, filled by writers, handed out, reused. The last
/// extent becomes its memory; the finisher moves earlier ones there.
struct BatchBuffer {
  /// The places of a batch's columns in its one piece of memory: fixed columns first, then the
  /// offsets of the ragged ones, then their values, each on a boundary of 256 bytes (what GPUs like
  /// best). A level of LoD has its 0 on the boundary, and its values after that.
  class Layout {
   public:
    struct Column {
      std::size_t data = 0;     ///< byte offset of the first value
      std::size_t offsets = 0;  ///< ragged: byte offset of rows + 1 int64
      std::size_t unit_bytes = 0;
      std::uint64_t capacity = 0;  ///< units that fit: rows, or steps of a ragged dimension
      bool ragged = false;
      bool level = false;  ///< of LoD: values are units of the next column, after a 0
    };

    /// A layout of so many bytes is impossible: it needs these, or more.
    static constexpr std::size_t kMostBytes = std::numeric_limits<std::int64_t>::max();

    Layout() = default;
    /// For `rows` rows; unit_capacity[f] units of each ragged field f (ignored for fixed ones).
    /// `masked`: one byte more for each row, after the fixed columns.
    Layout(const Parser& parser, std::size_t rows, std::span<const std::uint64_t> unit_capacity,
           bool masked = false);

    const std::vector<Column>& columns() const { return columns_; }
    /// Byte offset of the mask; only if masked.
    std::size_t mask() const { return mask_; }
    std::size_t bytes() const { return bytes_; }
    bool is_possible() const { return bytes_ < kMostBytes; }

    /// Sets the zeros that offsets and levels start with, in memory that is laid out so.
    void SetStarts(std::byte* memory) const;
    /// The columns of a batch of so many rows in memory that is laid out so, a tensor for each of
    /// the parser's fields. `owner` keeps the memory.
    Instance Columns(const Parser& parser, const std::byte* memory, std::size_t row_count,
                     const std::shared_ptr<const void>& owner) const;
    /// Takes row `row` of `row_count` out of a level's sums: all later rows lose the units that it
    /// has in the next column. Call it before either column loses the row.
    void RebaseLevel(std::size_t column, std::size_t row_count, std::size_t row,
                     std::byte* memory) const;

   private:
    std::vector<Column> columns_;
    std::size_t mask_ = 0;
    std::size_t bytes_ = 0;
  };

  /// A batch's memory, or, if a batch outgrew it, the first part of it.
  struct Extent {
    SlabRun run;
    Layout layout;
    std::uint32_t row_begin = 0;
    std::uint32_t row_end = 0;
    std::vector<std::uint64_t> unit_begin;  ///< per field
    std::vector<std::uint64_t> unit_end;
  };

  OrderSpan span;
  /// The number of its delivery; dropped ones have one, too. Writers may read it once it has a
  /// task.
  std::uint64_t sequence = 0;
  std::uint64_t pass = 0;  ///< over the data, that its first row is of
  std::uint32_t rows = 0;
  /// Records of the source that it holds, with those that are damaged or packed.
  std::uint64_t records = 0;
  std::uint64_t record_bytes = 0;    ///< of them; only if asked for
  std::vector<std::uint64_t> units;  ///< per field, planned
  std::vector<std::unique_ptr<Extent>> extents;
  /// A rest that is not handed out. It is written all the same: what fails in it is a failure, and
  /// the good rows before that are a short last batch.
  bool dropped = false;
  Status status;  ///< follows the rows; set by the planner or the finisher

  /// Its owner: the run, the consumer that it was handed to, or nobody, with no memory.
  enum class Hands : std::uint8_t { kRun, kConsumer, kNobody };
  /// See BatchPool::LetGo.
  std::atomic<Hands> hands{Hands::kRun};

  /// Writes to come, and one for the planner until the batch is closed. Dropped with acq_rel: the
  /// thread that drops the last sees every row written.
  std::atomic<std::uint32_t> pending{0};

  /// Bytes of the records of written rows, without failed ones. Relaxed: `pending` orders it.
  std::atomic<std::uint64_t> payload_bytes{0};

  /// Bytes that its writers left in their blocks, and the blocks whose memory is kept for them, one
  /// entry for each LetGo that is owed. Sorted by place once it is finished.
  std::vector<PendingCopy> pending_copies;
  std::vector<Block*> kept;

  // Only if checksums are left (LeftFieldRules::leaves_sums).
  std::vector<PendingSum> pending_sums;  ///< of rows with pending copies
  std::vector<SumRow> sum_rows;          ///< of each of these
  std::vector<std::uint64_t> row_bytes;  ///< of each row's record
  PlannedSums before;                    ///< in front of its first row
  /// The pass of the record that the batch ends in front of: its checksum was found not to match
  /// only after later records were planned.
  std::optional<std::uint64_t> failed_payload_pass;

  std::mutex failures_mutex;  ///< rows that fail are rare; guards also what is left in blocks
  std::vector<RowFailure> failures;
  /// Rows that the parser refused, up to the first one that it took, if there is one. Only if they
  /// are asked for.
  std::vector<RefusedRow> refused;
  bool all_refused = true;  ///< there is no other row
  // Of a padded batch, in their order; set by the planner.
  std::vector<MissingRows> missing;
  std::vector<std::uint32_t> repeated_rows;  ///< of shares that came before in the pass
  /// Block::NumberOf of each row, kNoRow of those that are missing; only if asked for.
  std::vector<std::uint64_t> row_numbers;

  /// The same of damaged records that have a place in the batch.
  std::vector<std::uint64_t> damaged_numbers;
  /// The places in the batch of the first of these, in rising order; only if checksums are left.
  std::vector<std::uint32_t> damaged_places;

  /// Of packed rows: the number of the batch's records up to the end of each; row_numbers are then
  /// of the records.
  std::vector<std::uint32_t> row_ends;
  std::vector<std::uint32_t>
      emptied_rows;  ///< the packed row of each record that failed in a write

  /// The place of row `row`, counted from the first one, if the batch is internal: rows that failed
  /// were taken out.
  std::uint32_t PlaceOf(std::uint32_t row) const {
    for (const RowFailure& failure : failures) row += failure.row <= row ? 1 : 0;
    return row;
  }
};

/// A piece of work for a writer: rows into a batch.
struct WriteTask {
  BatchBuffer* slot = nullptr;
  /// Null: there was no memory, so only the holds are dropped.
  BatchBuffer::Extent* extent = nullptr;
  std::uint32_t dst_row = 0;
  std::uint32_t rows = 0;
  Block* block = nullptr;  ///< rows [src_row, src_row + rows) of it, or, if null, refs
  std::uint32_t src_row = 0;
  std::vector<RowRef> refs;
  std::vector<std::uint64_t> unit_begin;  ///< per field: the rows' begin in the batch
  std::vector<std::uint64_t> unit_end;
};

}  // namespace ringfeed
