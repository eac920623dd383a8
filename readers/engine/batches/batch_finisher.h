#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory/arena.h"
#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/batches/batch_pool.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/blocks/failures.h"
#include "readers/parsers/parser.h"
#include "ringfeed/io_options.h"

namespace ringfeed {

/// The rules for all code that fills a batch.
struct BatchRules {
  OnDamage on_damage = OnDamage::kFail;
  /// Every batch has a row for each place of its slice: zeros if none is there. A last tensor
  /// "mask" tells.
  bool pad = false;
  bool note_rows = false;  ///< BatchBuffer::row_numbers is wanted
  /// Not null: which rows were refused is noted, as long as it is open.
  const Refusals* refusals = nullptr;
  /// Framing left checksums to the writer of a row, or to the copier of its fields.
  bool late_sums = false;
  /// Fields that the taker of the batch copies.
  LeftFieldRules left_fields{};
};

/// Makes one batch of what several writers wrote, and delivers it: joins its pieces, takes rows
/// that failed out of it, or ends it at one, and fills up what is padded. The thread that drops the
/// last hold on the batch finishes it, alone.
class BatchFinisher {
 public:
  BatchFinisher(const BatchRules& rules, const Parser* parser, std::shared_ptr<Arena> arena,
                BatchPool* pool, const SinkParts& parts)
      : rules_(rules),
        parser_(parser),
        fields_(parser->fields().size()),
        arena_(std::move(arena)),
        pool_(pool),
        parts_(parts) {}

  /// Drops one of the slot's `pending`, and finishes the batch with the last.
  void FinishOne(BatchBuffer* slot) const;
  /// The batch will never be finished: called in a catch handler. Everything ends before it.
  void EndBefore(const BatchBuffer& slot) const;
  /// Copies what was left in blocks, and lets those blocks go. Called by the batch's holder. Fails
  /// if a device's memory cannot be read.
  Status CopyPending(BatchBuffer* slot) const;
  /// Loses those of these sums that the CPU finds not to match. The batch becomes what it would be
  /// if framing had found that, and nothing is pending any more. If pending bytes cannot be copied,
  /// nothing of the batch is left, and it ends with that failure, as with a payload's at its first
  /// row (failed_payload_pass). Called by the batch's holder.
  void LosePayloads(std::span<const std::uint32_t> sums, BatchBuffer* slot) const;

 private:
  void Finish(BatchBuffer* slot) const;
  /// Call before anything in the batch is moved: pending copies hold places in it.
  void SettlePending(BatchBuffer* slot) const;
  void JoinExtents(BatchBuffer* slot) const;
  void SettleFailures(BatchBuffer* slot) const;
  /// The batch fails with this row, and ends before it.
  void EndInFrontOf(const RowFailure& failure, BatchBuffer* slot) const;
  /// The rows from this one on are not delivered.
  void EndAt(BatchBuffer* slot, std::size_t row) const;
  void CutRefused(BatchBuffer* slot) const;
  /// Removes the values of a row; returns how many units they were.
  static std::int64_t CutUnits(const BatchBuffer::Extent& extent,
                               const BatchBuffer::Layout::Column& column, std::size_t rows,
                               std::size_t row);
  /// Removes all rows that failed.
  void RemoveFailed(BatchBuffer* slot) const;
  void RemoveOfLevels(BatchBuffer* slot, std::size_t row) const;
  /// Fails the rows whose sums do not match.
  void CheckSums(BatchBuffer* slot) const;
  void FailSum(std::size_t sum, BatchBuffer* slot) const;
  static void NoteFailedPayload(const RowFailure& failure, BatchBuffer* slot);
  /// Notes the number of a row that failed.
  void NoteDamaged(const RowFailure& failure, std::uint64_t number, BatchBuffer* slot) const;
  /// Of a padded batch: sets the mask, and fills the rows that are missing (WriteMissing).
  void FillMissing(const BatchBuffer& slot) const;
  /// Of a padded batch: rows of repeated shares count as rows without a record.
  void MaskRepeated(BatchBuffer* slot) const;
  /// Of a padded batch: a packed row of which no record is left becomes one that is missing.
  void MaskEmptied(BatchBuffer* slot) const;
  /// Of a padded batch: a row that failed becomes one that is missing.
  void BlankRow(BatchBuffer* slot, std::size_t row) const;
  /// It holds no record any more.
  void ForgetNumbers(BatchBuffer* slot, std::size_t row) const;

  const BatchRules rules_;
  const Parser* const parser_;
  const std::size_t fields_;
  const std::shared_ptr<Arena> arena_;
  BatchPool* const pool_;
  const SinkParts parts_;
};

}  // namespace ringfeed
