#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/pending_copy.h"
#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/blocks/run_memory.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// The rows of a task, as far as leaving fields in their blocks needs them.
struct LeavableRows {
  const WriteTask* task = nullptr;
  std::span<const RecordSpan> records;
  std::span<Block* const> blocks;  ///< that hold the records, each once

  const Block& block_of(std::size_t row) const {
    return task->block != nullptr ? *task->block : *task->refs[row].block;
  }
  std::uint32_t row_of(std::size_t row) const {
    return task->block != nullptr ? task->src_row + static_cast<std::uint32_t>(row)
                                  : task->refs[row].row;
  }
  bool unchecked(std::size_t row) const { return block_of(row).Unchecked(row_of(row)); }
  /// Whether any checksum may still be to be taken.
  bool AnyUnchecked() const {
    return std::any_of(blocks.begin(), blocks.end(),
                       [](const Block* block) { return !block->frame.unchecked.empty(); });
  }
};

/// What a writer found of a task's rows that are left, before the batch has it.
struct LeftCopies {
  std::vector<PendingCopy> copies;  ///< PendingCopy::sum: of the task's sums
  std::vector<std::uint32_t> rows;  ///< of each copy
  std::vector<PendingSum> sums;
  std::vector<SumRow> sum_rows;
  std::vector<std::size_t> bad_rows;  ///< whose sums were taken here, and do not match
  std::vector<std::size_t> of_row;    ///< working memory

  void Clear() {
    copies.clear();
    rows.clear();
    sums.clear();
    sum_rows.clear();
    bad_rows.clear();
  }
};

/// Leaves long fields of rows in their blocks: the batch gets a PendingCopy for each, and keeps the
/// blocks. It does so for all rows of a task alike, field by field, and only as long as the run
/// has memory for kept blocks; else the rows are written as usual. Immutable; by any writer.
class LeftFields {
 public:
  LeftFields(const Parser* parser, const LeftFieldRules& rules, RunMemory* memory);

  /// Whether there is a field that may be left at all.
  bool any() const { return !candidates_.empty(); }
  /// Whether a field is long enough, of rows that are located.
  bool AnyLong(const LeavableRows& rows, const FieldLocation* locations) const;
  /// Whether the CPU cannot read the rows' memory: then all of their fields are left, or none.
  static bool AreFar(const LeavableRows& rows) {
    return !rows.blocks.empty() && rows.blocks.front()->far != nullptr;
  }
  /// Keeps the blocks of the rows; false if they cannot be kept, or memory for that is lacking.
  bool Keep(const LeavableRows& rows) const;
  /// Leaves what can be left of the rows, which are located and kept. The targets of those fields
  /// then have no data. Checksums that are still to be taken go with them, or else are taken here.
  /// `left` is working memory. If nothing is left the blocks are let go.
  bool Leave(const LeavableRows& rows, const FieldLocation* locations,
             std::vector<ColumnTarget>* targets, LeftCopies* left) const;
  void LetGo(const LeavableRows& rows) const { LetGo(rows.blocks); }

 private:
  bool IsLong(std::size_t bytes) const { return bytes >= rules_.least_bytes; }
  bool MayBeLeft(const LeavableRows& rows, std::size_t bytes) const {
    return AreFar(rows) || IsLong(bytes) ||
           (rows.task->block != nullptr && bytes >= rules_.least_neighbour_bytes);
  }
  /// The bytes of a row's field, on average.
  std::size_t MeanBytes(const LeavableRows& rows, const FieldLocation* locations,
                        std::size_t field) const;
  bool AddCopies(const LeavableRows& rows, const FieldLocation* locations, std::size_t field,
                 const ColumnTarget& target, LeftCopies* left) const;
  /// Whether the copies are most of what the rows' records are.
  static bool IsMostOf(const LeavableRows& rows, const std::vector<PendingCopy>& copies);
  /// Adds the sums of the rows; takes those of bytes that are not copied.
  static void AddSums(const LeavableRows& rows, LeftCopies* left);
  static void AddSum(const LeavableRows& rows, std::size_t row, std::span<const std::size_t> copies,
                     LeftCopies* left);
  void LetGo(std::span<Block* const> blocks) const;

  const Parser* const parser_;
  const LeftFieldRules rules_;
  RunMemory* const memory_;
  std::vector<std::size_t> candidates_;  ///< fields
};

}  // namespace ringfeed
