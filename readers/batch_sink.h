#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/arena.h"
#include "readers/batch_slot.h"
#include "readers/parsers/parser.h"
#include "readers/plan_clock.h"
#include "readers/plan_sink.h"
#include "readers/row_pieces.h"
#include "ringfeed/mpmc_ring.h"
#include "ringfeed/record.h"

namespace ringfeed {

class PackParser;

/// A writer thread's memory between tasks.
struct WriterScratch {
  std::unique_ptr<Parser::Scratch> parser;
  std::vector<RecordSpan> records;
  std::vector<FieldLocation> locations;
  std::vector<ColumnTarget> targets;
  std::vector<ColumnTarget> piece_targets;  ///< the same, of the rows that come next
  RowPieces pieces;
  std::vector<std::vector<std::int64_t>> offsets;
  std::vector<RowFailure> failures;
  std::vector<std::uint32_t> rows_of_block;  ///< by Block::index
  std::vector<Block*> touched;
};

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
  static constexpr std::size_t kMaxSlots = 64;
  static constexpr std::size_t kLeastSlots = 2;
  /// A batch in no block's order is written by up to this many tasks.
  static constexpr std::size_t kTasksPerBatch = 4;
  struct Options {
    std::size_t rows = 1;  ///< places of a batch
    bool drop_remainder = false;
    bool close_at_block_end =
        false;  ///< internal batches, whose size nobody sees: short rather than late
    bool whole_tensors = true;  ///< false: MakeInstance gives a tensor for each field, also levels
    std::size_t slots = 0;      ///< 0: chosen by the size of a batch
    std::size_t least_slots = kLeastSlots;  ///< without these nothing works
    std::size_t memory_bytes = 0;           ///< all slots together
    OnDamage on_damage = OnDamage::kFail;
    /// So many batches, or, with close_at_block_end, places, are planned and left out first: their
    /// rows are not written. They are numbered all the same.
    std::uint64_t skip = 0;
    /// Only the rows at places [slice_begin, slice_end) of a batch are written; 0 for its end.
    std::size_t slice_begin = 0;
    std::size_t slice_end = 0;
    /// Every batch has a row for each place of its slice: zeros where none is there. A last tensor
    /// "mask" tells.
    bool pad = false;
    /// Not null: which rows were refused is noted, as long as it is open.
    const Refusals* refusals = nullptr;
    bool note_rows = false;      ///< BatchSlot::row_numbers is wanted
    PlanClock* clock = nullptr;  ///< null: one of its own
    /// The parser, where its rows come packed: of OnPacked alone.
    const PackParser* packer = nullptr;
  };

  BatchSink(const Options& options, const Parser* parser, std::shared_ptr<Arena> arena,
            PlanHost* host);
  ~BatchSink() override;

  // The planner's calls.
  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPacked(std::span<const RowRef> rows) override;
  void OnLost(Block* block, std::uint32_t rows) override {
    tally_.unplaced += rows;
    host_->Drop(block, rows);
  }
  void OnPassEnd() override;
  void OnCut() override { CloseRest(options_.drop_remainder && !fails_); }
  void OnFailing() override { fails_ = true; }
  void OnEnd(const Status& status) override;
  bool Continue() override;
  bool Outstanding() override {
    // Order: partner of the fetch_sub in Finish, which follows the drops of that batch's blocks.
    return in_work_.load(std::memory_order_acquire) > 0 ||
           (!planned_.empty() && planned_.front().closed);
  }

  std::optional<std::uint64_t> rows_of_dropped_pass() const override {
    return rows_of_dropped_pass_;
  }
  std::uint64_t first_unfinished() const override { return first_unfinished_; }

  // A writer's call: does the task and recycles it. What is thrown ends everything in front of the
  // batch.
  void Write(WriteTask* task, WriterScratch* scratch);
  // The consumer's calls.
  Instance MakeInstance(const BatchSlot& slot, const std::shared_ptr<const void>& owner) const;
  void Release(BatchSlot* slot);
  /// Slots that exist at most; fixed once the first batch was planned.
  std::size_t slot_limit() const { return slot_limit_.load(std::memory_order_relaxed); }

  std::uint64_t grown() const { return grown_.load(std::memory_order_relaxed); }

 private:
  /// A batch in the plan.
  struct Planned {
    OrderSpan span;
    std::uint64_t sequence = 0;  ///< as of BatchSlot
    std::uint64_t pass = 0;      ///< of its first row
    std::uint32_t places = 0;    ///< so far
    std::uint32_t rows = 0;      ///< that are to be written
    bool skipped = false;        ///< left out
    bool closed = false;
    bool dropped = false;
    bool of_dropped_rest = false;  ///< as of its block: it is dropped also where it has all rows
    std::vector<std::uint64_t> damaged_numbers;
    std::vector<std::uint64_t> units;
    std::vector<WriteTask*> tasks;        ///< waiting for a slot
    std::vector<RowRef> refs;             ///< of a batch that is written once it is closed
    std::vector<std::uint32_t> row_ends;  ///< of packed rows: where they end in refs
    std::vector<MissingRows> missing;
    BatchSlot* slot = nullptr;
  };

  /// Places of a batch that are treated alike.
  struct Part {
    std::uint32_t places = 0;
    bool written = false;  ///< in the slice of a batch that is not left out
  };

  /// The batch that the block's next row goes to.
  Planned& Current(const Block& block);
  /// The first of the next `places` places.
  Part NextPart(const Planned& batch, std::size_t places) const;
  /// The row of a place of the batch's slice.
  std::uint32_t RowOf(const Planned& batch, std::size_t place) const;
  /// Places [begin, end) of the batch's slice get no row.
  void AddMissing(Planned& batch, std::size_t begin, std::size_t end) const;
  BatchLayout LayoutFor(std::span<const std::uint64_t> capacity) const {
    return BatchLayout(*parser_, slice_rows_, capacity, options_.pad);
  }
  /// Counts rows that come to the batch.
  void Tally(const Planned& batch, bool written, std::uint64_t rows);
  void CountPlaces(std::uint32_t places);
  void CountPlaces(Planned& batch, std::uint32_t places);
  void AddPiece(Block* block, std::uint32_t begin, std::uint32_t end);
  void AddTask(Planned& batch, Block* block, std::uint32_t begin, std::uint32_t rows);
  void AddRefs(std::span<const RowRef> rows);
  /// So many places, from a row of the block on, whose records are damaged.
  void AddHoles(Block* block, std::uint32_t row, std::uint32_t places);
  /// How many of the rows from the first on are good, and may be in one batch.
  std::size_t GoodRun(std::span<const RowRef> rows) const;
  void DropAll(std::span<const RowRef> rows);
  void Close(Planned& batch);
  void CutIntoTasks(Planned& batch);
  void CutPacked(Planned& batch);
  void CloseRest(bool drop);
  void CountUnits(const WriteTask& task, std::vector<std::uint64_t>* units) const;
  bool GiveSlot(Planned& batch);
  /// The arena has no piece for one more slot: goes on with those that there are, where these are
  /// enough. False where `slot` is one of those.
  bool DropSpareSlot(const BatchSlot* slot);
  void ChooseSlotLimit(std::size_t batch_bytes);
  std::vector<std::uint64_t> CapacityFor(const Planned& batch) const;
  void Prepare(BatchSlot* slot, const Planned& batch);
  std::unique_ptr<BatchExtent> MakeExtent(std::span<const std::uint64_t> capacity, Status* status);
  void Dispatch(Planned& batch, WriteTask* task);
  bool FitOrGrow(BatchSlot* slot, const WriteTask& task);
  WriteTask* NewTask();
  void RecycleTask(WriteTask* task);

  void PrepareTargets(const WriteTask& task, WriterScratch* scratch) const;
  void GatherRows(const WriteTask& task, WriterScratch* scratch) const;
  void PublishOffsets(const WriteTask& task, const WriterScratch& scratch) const;
  static std::span<const RecordSpan> RecordsOf(const WriteTask& task, const WriterScratch& scratch);
  static void CountBytes(const WriteTask& task, const WriterScratch& scratch);
  void WriteRows(const WriteTask& task, WriterScratch* scratch) const;
  void WritePieces(std::span<const RecordSpan> records, const FieldLocation* locations,
                   WriterScratch* scratch) const;
  void GiveUpRows(std::size_t begin, std::size_t rows, const FieldLocation* locations,
                  WriterScratch* scratch) const;
  void NoteFailures(const WriteTask& task, WriterScratch* scratch) const;
  /// Notes the blocks that the task's rows stand in, and how many of each.
  static void CollectBlocks(const WriteTask& task, WriterScratch* scratch);
  /// Rows whose mapped file lost pages meanwhile may be zeros: they failed.
  static void FailShrunk(const WriteTask& task, WriterScratch* scratch);
  void DropHolds(const WriteTask& task, WriterScratch* scratch);
  void WriteAll(WriteTask* task, WriterScratch* scratch);
  void FinishOne(BatchSlot* slot);
  /// The batch will never be finished: in a handler of what was thrown.
  void EndBefore(const BatchSlot& slot);
  void Finish(BatchSlot* slot);
  void JoinExtents(BatchSlot* slot) const;
  void SettleFailures(BatchSlot* slot) const;
  /// The rows from this one on are not to be delivered.
  void EndAt(BatchSlot* slot, std::size_t row) const;
  void CutRefused(BatchSlot* slot) const;
  /// Takes the values of a row out; returns how many units they were.
  static std::int64_t CutUnits(const BatchExtent& extent, const BatchLayout::Column& column,
                               std::size_t rows, std::size_t row);
  static void RemoveRaggedRow(const BatchExtent& extent, const BatchLayout::Column& column,
                              std::size_t rows, std::size_t row);
  void RemoveRow(BatchSlot* slot, std::size_t row) const;
  /// Of a padded batch: sets the mask, and zeros for the rows that are missing.
  void FillMissing(const BatchSlot& slot) const;
  /// Of a padded batch: a row that failed becomes one that is missing.
  void BlankRow(BatchSlot* slot, std::size_t row) const;
  Tensor MakeMask(const BatchSlot& slot, const std::shared_ptr<const void>& owner) const;
  /// Of rows that nobody batched: so many are not delivered.
  void LeaveOut(std::size_t rows);
  void NoteRows(const WriteTask& task) const;
  void WritePacked(const WriteTask& task, WriterScratch* scratch) const;
  void FailPacked(const WriteTask& task, WriterScratch* scratch) const;

  const Options options_;
  const Parser* const parser_;
  const std::size_t fields_;
  const std::size_t slice_end_;
  const std::size_t slice_rows_;  ///< most rows that a batch has here
  const std::uint64_t skip_batches_;
  const std::shared_ptr<Arena> arena_;
  PlanHost* const host_;

  // The planner's own.
  std::deque<Planned> planned_;
  std::uint64_t next_number_ = 0;
  std::uint64_t next_sequence_ = 0;
  bool fails_ = false;      ///< a failure comes: whatever is begun is delivered, and cut short
  PlanMark counted_;        ///< behind the last batch that no failure cut short
  std::uint64_t cuts_ = 0;  ///< batches that one cut short
  std::uint64_t first_unfinished_ = 0;  ///< as delivered
  // Of the end of a pass that was met last.
  std::uint64_t pass_begin_number_ = 0;  ///< next_number_ behind it
  std::uint64_t pass_begin_place_ = 0;   ///< places_ then
  std::optional<std::uint64_t> rows_of_dropped_pass_;
  PlanClock own_clock_;
  PlanClock* const clock_;
  std::uint64_t places_ = 0;
  std::uint64_t skip_rows_;  ///< to come
  std::vector<std::uint64_t> learned_units_;
  std::vector<std::unique_ptr<BatchSlot>> slots_;
  std::vector<std::unique_ptr<WriteTask>> tasks_;
  std::uint32_t next_lane_ = 0;

  // Shared with writers and consumers.
  MpmcRing<BatchSlot*> free_slots_;
  MpmcRing<WriteTask*> free_tasks_;
  std::atomic<std::size_t> slot_limit_{0};
  std::atomic<std::uint64_t> in_work_{0};  ///< batches with a slot that are not complete yet
  std::atomic<std::uint64_t> grown_{0};
};

}  // namespace ringfeed
