// The end of the plan: it gives rows their places in batches, and hands a batch's tensors out.
//
// The run makes it before its threads start. The plan calls OnRows and the other On… functions,
// Continue and Outstanding, on whichever worker runs the plan, one at a time. Workers do tasks
// through writer(), several at once. Consumers call MakeInstance and Release on their own threads.
// What holds: members marked as the planner's own are touched within the plan alone, and no call
// waits. Without a free slot the rows stay in planned_ until Continue finds one.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/batches/batch_finisher.h"
#include "readers/engine/batches/batch_pool.h"
#include "readers/engine/batches/batch_writer.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/order/plan_clock.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Groups rows into batches, gives each row its place and has writers fill them.
///
/// In the blocks' own order (no shuffle) rows go to writers as soon as their place is known, batch
/// by batch in pieces of a block, while the block is still in its reader's cache; the batch's
/// memory is then sized by what was learned so far. In any other order a batch is written once all
/// its rows are known.
///
/// A batch is `rows` places of the order. Damaged records (null spans) have places too, so that
/// which rows a batch holds does not depend on what could be read: they make it shorter.
class BatchSink final : public PlanSink {
 public:
  static constexpr std::size_t kMaxSlots = BatchPool::kMaxSlots;
  static constexpr std::size_t kLeastSlots = BatchPool::kLeastSlots;
  /// A batch in no block's order is written by up to this many tasks.
  static constexpr std::size_t kTasksPerBatch = 4;
  struct Options : BatchRules {
    std::size_t rows = 1;  ///< places of a batch
    bool drop_remainder = false;
    bool close_at_block_end =
        false;  ///< internal batches, whose size does not show: short rather than late
    bool whole_tensors = true;  ///< false: MakeInstance gives a tensor for each field, also levels
    std::size_t slots = 0;      ///< 0: chosen by the size of a batch
    std::size_t wanted_slots = 0;           ///< as of BatchPool
    std::size_t least_slots = kLeastSlots;  ///< without these nothing works
    std::size_t memory_bytes = 0;           ///< all slots together
    /// So many batches, or, with close_at_block_end, places, are planned and left out first: their
    /// rows are not written. They are numbered all the same.
    std::uint64_t skip = 0;
    /// Only the rows at places [slice_begin, slice_end) of a batch are written; 0 for its end.
    std::size_t slice_begin = 0;
    std::size_t slice_end = 0;
    PlanClock* clock = nullptr;  ///< null: one of its own
    bool count_bytes = false;    ///< of records, see planned()
    bool count_payload = false;  ///< RowTally::delivered_bytes; for sums() they must be
  };

  BatchSink(const Options& options, const Parser* parser, const std::shared_ptr<Arena>& arena,
            const SinkParts& parts);

  // The planner's calls.
  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPacked(std::span<const RowRef> rows) override;
  void OnLost(Block* block, std::uint32_t rows, std::uint64_t bytes) override {
    tally_.unplaced += rows;
    tally_.lost_bytes += bytes;
    parts_.memory->Drop(block, rows);
  }
  void OnPassEnd() override;
  void OnCut() override { CloseRest(options_.drop_remainder && !cuts_.is_failing); }
  void OnFailing() override { cuts_.is_failing = true; }
  void OnEnd(const Status& status) override;
  bool Continue() override;
  bool Outstanding() override {
    return pool_.HasIncomplete() || (!planned_.empty() && planned_.front().closed);
  }

  std::optional<std::uint64_t> rows_of_dropped_pass() const override {
    return pass_end_.dropped_rows;
  }
  Settled settled() const override { return is_begun() ? settled_ : PlanSink::settled(); }
  std::uint64_t first_unfinished() const override { return first_unfinished_; }
  Planned planned() const override;

  /// Writes what was submitted; any thread.
  const BatchWriter& writer() const { return writer_; }
  // The consumer's calls.
  Instance MakeInstance(const BatchBuffer& slot, const std::shared_ptr<const void>& owner) const;
  BatchPool& pool() { return pool_; }
  const BatchPool& pool() const { return pool_; }
  const BatchFinisher& finisher() const { return finisher_; }

 private:
  /// A batch in the plan.
  struct PlannedBatch {
    OrderSpan span;
    std::uint64_t sequence = 0;  ///< as of BatchBuffer
    std::uint64_t pass = 0;      ///< of its first row
    std::uint32_t places = 0;    ///< so far
    std::uint32_t rows = 0;      ///< that are to be written
    std::uint64_t records = 0;   ///< as of BatchBuffer
    std::uint64_t record_bytes = 0;
    bool skipped = false;  ///< left out
    bool closed = false;
    bool dropped = false;
    bool of_dropped_rest = false;  ///< as of its block: it is dropped also if it has all rows
    PlannedSums before;
    std::vector<std::uint64_t> damaged_numbers;
    std::vector<std::uint32_t> damaged_places;  ///< as of BatchBuffer
    std::vector<std::uint64_t> units;
    std::vector<WriteTask*> tasks;        ///< waiting for a slot
    std::vector<RowRef> refs;             ///< of a batch that is written once it is closed
    std::vector<std::uint32_t> row_ends;  ///< of packed rows: their ends in refs
    std::vector<MissingRows> missing;
    std::vector<std::uint32_t> repeated_rows;
    BatchBuffer* slot = nullptr;
  };

  /// Places of a batch that get the same treatment.
  struct Part {
    std::uint32_t places = 0;
    bool written = false;  ///< in the slice of a batch that is not left out
  };
  /// Which places of a batch have their rows written here.
  struct Slice {
    explicit Slice(const Options& options)
        : begin(options.slice_begin),
          end(options.slice_end != 0 ? options.slice_end : options.rows),
          batch(options.rows) {}
    std::size_t rows() const { return end - begin; }  ///< that a batch has here at most
    /// The first of the next `places` places of a batch that has `at` so far.
    Part NextPart(std::size_t at, std::size_t places, bool is_left_out) const;

    std::size_t begin;
    std::size_t end;
    std::size_t batch;  ///< places of a whole one
  };
  /// Batches that a failure cuts short are delivered, and count in no position.
  struct Cuts {
    bool is_failing = false;  ///< a failure comes: open batches are cut short
    PlanPosition counted;     ///< after the last batch that no failure cut short
    std::uint64_t count = 0;  ///< batches since `counted`
  };
  /// What the next pass begins with, and what the last one left.
  struct PassEnd {
    std::uint64_t number = 0;  ///< of the next batch, after it
    std::uint64_t places = 0;  ///< so far, after it
    std::optional<std::uint64_t> dropped_rows;
  };

  /// What came to the end of the plan so far.
  PlannedSums sums() const {
    return {tally_.delivered + tally_.dropped, tally_.delivered_bytes, tally_.dropped};
  }
  /// Whether a batch has rows, and may get more.
  bool is_begun() const { return !planned_.empty() && !planned_.back().closed; }
  /// The batch that the block's next row goes to.
  PlannedBatch& Current(const Block& block);
  Part NextPart(const PlannedBatch& batch, std::size_t places) const {
    return slice_.NextPart(batch.places, places, batch.skipped);
  }
  /// The row of a place of the batch's slice.
  std::uint32_t RowOf(const PlannedBatch& batch, std::size_t place) const;
  /// Places [begin, end) of the batch's slice get no row.
  void AddMissing(PlannedBatch& batch, std::size_t begin, std::size_t end) const;
  /// Of a padded batch: the next rows are of these records, of which some may be repeated.
  void NoteRepeated(PlannedBatch& batch, std::span<const RowRef> rows) const;
  /// Counts rows that come to the batch.
  void Tally(const PlannedBatch& batch, bool written, std::uint64_t rows);
  void CountPlaces(std::uint32_t places);
  void CountPlaces(PlannedBatch& batch, std::uint32_t places);
  /// The batch holds these records too. Call before their places are counted, which may close it.
  void NoteRecords(PlannedBatch& batch, std::uint64_t records, std::uint64_t bytes);
  /// The bytes of these rows, if they are counted; else 0.
  std::uint64_t BytesOf(const Block& block, std::uint32_t begin, std::uint32_t rows) const;
  std::uint64_t BytesOf(std::span<const RowRef> rows) const;
  /// Whether the bytes of their records are counted here: delivered ones were counted by block.
  bool CountsPayload(const Part& part) const { return options_.count_payload || !part.written; }
  static std::uint64_t PayloadOf(std::span<const RowRef> rows);
  /// So many bytes are of rows that are written, or that this output does not deliver.
  void TallyPayload(bool written, std::uint64_t bytes);
  void AddPiece(Block* block, std::uint32_t begin, std::uint32_t end);
  void AddTask(PlannedBatch& batch, Block* block, std::uint32_t begin, std::uint32_t rows);
  void AddRefs(std::span<const RowRef> rows);
  /// Adds `places` places, from row `row` of the block on, whose records are damaged.
  void AddHoles(Block* block, std::uint32_t row, std::uint32_t places);
  /// How many of the rows from the first on are good, and may be in one batch.
  std::size_t GoodRun(std::span<const RowRef> rows) const;
  void DropAll(std::span<const RowRef> rows);
  /// The packed rows before row `rows` that have no end yet are missing.
  static void EndPackedRows(PlannedBatch& batch, std::size_t rows);
  void Close(PlannedBatch& batch);
  void CutIntoTasks(PlannedBatch& batch);
  void CloseRest(bool drop);
  void CountUnits(const WriteTask& task, std::vector<std::uint64_t>* units) const;
  bool GiveSlot(PlannedBatch& batch);
  void Dispatch(PlannedBatch& batch, WriteTask* task);
  Tensor MakeMask(const BatchBuffer& slot, const std::shared_ptr<const void>& owner) const;
  /// For rows without a Batch: leaves so many out.
  void LeaveOut(std::size_t rows);

  const Options options_;
  const Parser* const parser_;
  const std::size_t fields_;
  const Slice slice_;
  const std::uint64_t skip_batches_;

  // The planner's own.
  std::deque<PlannedBatch> planned_;
  std::uint64_t next_number_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t records_ = 0;  ///< of all batches that are not left out
  std::uint64_t record_bytes_ = 0;
  Settled settled_;  ///< as when the last closed batch was closed
  Cuts cuts_;
  std::uint64_t first_unfinished_ = 0;  ///< as delivered
  PassEnd pass_end_;                    ///< of the last pass that ended
  PlanClock own_clock_;
  PlanClock* const clock_;
  std::uint64_t places_ = 0;
  std::uint64_t skip_rows_;  ///< to come
  std::uint32_t next_lane_ = 0;

  // Shared with writers and consumers.
  BatchPool pool_;
  const BatchFinisher finisher_;
  const BatchWriter writer_;
};

}  // namespace ringfeed
