#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/batches/batch_finisher.h"
#include "readers/engine/batches/batch_pool.h"
#include "readers/engine/batches/left_fields.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/blocks/locate.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// A writer thread's memory between tasks.
struct WriterScratch {
  std::unique_ptr<Parser::Scratch> parser;
  std::vector<RecordSpan> records;
  std::vector<std::byte> brought;           ///< bytes of rows that stood in a device's memory
  std::vector<RecordSpan> brought_records;  ///< these rows; empty: they are in their blocks
  std::vector<FieldLocation> locations;
  std::vector<ColumnTarget> targets;
  std::vector<ColumnTarget> piece_targets;  ///< the same, of the rows that come next
  RowPieces pieces;
  std::vector<std::vector<std::int64_t>> offsets;
  std::vector<RowFailure> failures;
  std::vector<RecordSpan> unchecked;         ///< rows whose checksums are taken at once
  std::vector<std::uint32_t> crcs;           ///< of these
  std::vector<std::uint32_t> rows_of_block;  ///< by Block::index
  std::vector<Block*> touched;
  LeftCopies left;      ///< of fields that are left in their blocks
  bool leaves = false;  ///< there are some
};

/// Has the parser write the rows of a task into their places in a batch, and lets go of their
/// blocks. Several threads at once, each with a scratch of its own; knows no order.
class BatchWriter {
 public:
  BatchWriter(const BatchRules& rules, const Parser* parser, BatchPool* pool,
              const BatchFinisher* finisher, const SinkParts& parts)
      : rules_(rules),
        parser_(parser),
        fields_(parser->fields().size()),
        row_locations_(parser->row_locations()),
        row_targets_(parser->fields()),
        pool_(pool),
        finisher_(finisher),
        parts_(parts),
        left_fields_(parser, rules.left_fields, parts.memory) {}

  /// Does the task and recycles it. What is thrown ends everything before the batch.
  void Write(WriteTask* task, WriterScratch* scratch) const;

 private:
  void WriteAll(WriteTask* task, WriterScratch* scratch) const;
  void PrepareTargets(const WriteTask& task, WriterScratch* scratch) const;
  void GatherRows(const WriteTask& task, WriterScratch* scratch) const;
  void PublishOffsets(const WriteTask& task, const WriterScratch& scratch) const;
  static std::span<const RecordSpan> RecordsOf(const WriteTask& task, const WriterScratch& scratch);
  void CountBytes(const WriteTask& task, const WriterScratch& scratch) const;
  /// The locations of the task's rows; null if the parser finds the fields as it writes.
  const FieldLocation* LocationsOf(const WriteTask& task, const WriterScratch& scratch) const;
  /// Brings rows that only a device can read into memory of this thread's, and finds their fields
  /// there. Throws Error if the device gives nothing any more.
  const FieldLocation* BringRows(const WriteTask& task, WriterScratch* scratch) const;
  /// As LocationsOf, once the rows can be written: leaves long fields, and brings far ones.
  const FieldLocation* PrepareFields(const WriteTask& task, WriterScratch* scratch) const;
  /// Leaves long fields in their blocks, of rows whose fields are `located`, or null. Returns their
  /// locations then; null if none is left.
  const FieldLocation* LeaveFields(const LeavableRows& rows, const FieldLocation* located,
                                   WriterScratch* scratch) const;
  void WriteRows(const WriteTask& task, WriterScratch* scratch) const;
  void WritePieces(const WriteTask& task, const FieldLocation* locations,
                   WriterScratch* scratch) const;
  void GiveUpRows(std::size_t begin, std::size_t rows, const FieldLocation* locations,
                  WriterScratch* scratch) const;
  /// Checks the sums that framing left of rows [begin, end); rows that do not match fail.
  static void CheckSums(const LeavableRows& rows, std::size_t begin, std::size_t end,
                        WriterScratch* scratch);
  /// The same for rows whose fields are left, as far as the CPU takes their sums.
  void CheckLeft(const WriteTask& task, WriterScratch* scratch) const;
  static void FailPayload(const LeavableRows& rows, std::size_t row, WriterScratch* scratch);
  static std::size_t CachedRows(std::span<const RecordSpan> rows);
  static std::size_t FetchedRows(std::span<const RecordSpan> rows);
  void NoteFailures(const WriteTask& task, WriterScratch* scratch) const;
  /// Notes the blocks of the task's rows, and how many rows each has.
  static void CollectBlocks(const WriteTask& task, WriterScratch* scratch);
  /// Fails rows whose mapped file lost pages meanwhile: they may be zeros.
  static void FailShrunk(const WriteTask& task, WriterScratch* scratch);
  void DropHolds(const WriteTask& task, WriterScratch* scratch) const;
  static void NoteRows(const WriteTask& task);
  static LeavableRows RowsOf(const WriteTask& task, const WriterScratch& scratch);
  /// Points the piece's targets at the places of record `record` of the task and of later ones.
  void Aim(const WriteTask& task, std::size_t record, WriterScratch* scratch) const;
  /// Of a packed row: makes the place of a record empty that was written.
  void LeaveEmpty(const WriteTask& task, std::size_t record, WriterScratch* scratch) const;

  const BatchRules rules_;
  const Parser* const parser_;
  const std::size_t fields_;
  const std::size_t row_locations_;
  const RowTargets row_targets_;
  BatchPool* const pool_;
  const BatchFinisher* const finisher_;
  const SinkParts parts_;
  const LeftFields left_fields_;
};

}  // namespace ringfeed
