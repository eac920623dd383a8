#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/stages/plan_stage.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Counts of the rows that came to the end of a run's plan. Only the planner uses it.
struct RowTally {
  std::uint64_t delivered = 0;  ///< or are on their way
  std::uint64_t unplaced = 0;   ///< have no place: dropped by Filter, of no group, empty in Pack
  std::uint64_t damaged = 0;    ///< places without a record
  std::uint64_t dropped = 0;    ///< the rest of a pass that Batch was told to drop
  std::uint64_t left_out = 0;   ///< rows before the place at which the run starts
  std::uint64_t of_others = 0;  ///< other ranks write them
  std::uint64_t delivered_bytes = 0;  ///< of the records of delivered, if they are counted
  /// Bytes counted with their blocks for records that are not delivered here.
  std::uint64_t lost_bytes = 0;
  std::uint64_t passes = 0;  ///< so many ends of passes came through

  std::uint64_t rows() const {
    return delivered + unplaced + damaged + dropped + left_out + of_others;
  }
  bool operator==(const RowTally&) const = default;
};

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

/// The last stage of the plan: turns rows in their final order into deliveries.
class PlanSink : public PlanStage {
 public:
  /// What it needs of the run around it.
  class Host {
   public:
    virtual ~Host() = default;
    /// Gives a task to the writers; `near_lane` tells whose cache its rows are in.
    virtual void Submit(WriteTask* task, std::uint32_t near_lane) = 0;
    /// Drops `rows` holds on a block.
    virtual void Drop(Block* block, std::uint32_t rows) = 0;
    /// Counts the rows since the tally was `before`.
    virtual void NoteRows(const RowTally& before, const RowTally& now) = 0;
    /// Keeps a block's memory after its last hold, until LetGo, if there is memory for that. The
    /// caller has a hold on it. Several threads at once.
    virtual bool Keep(Block* /*block*/) { return false; }
    virtual void LetGo(Block* /*block*/) {}
    /// Delivery number `number` is complete.
    virtual void Deliver(std::uint64_t number, Delivery delivery) = 0;
    /// A record that was planned could not be parsed, and is left out.
    virtual void NoteSkipped(const RecordSpan& record, const Status& why) = 0;
    /// A record that was planned turned out damaged, as framing would have noted it.
    virtual void NoteLostPayload(const DamagedRange& /*range*/, std::size_t /*bytes*/) {}
    /// So many of these were of a rest that is dropped.
    virtual void NoteLostOfDropped(std::uint64_t /*rows*/) {}
    /// All that the run leaves out at its start is planned: the position after it.
    virtual void NoteLeftOut(const PlanPosition& /*behind*/) {}
    /// Payload bytes of all blocks that were planned; none if they are not counted.
    virtual std::optional<std::uint64_t> PlannedBytes() { return std::nullopt; }
    /// A batch is done with the writers.
    virtual void BatchDone() = 0;
    /// Whether number `number` has room yet.
    virtual bool HasRoom(std::uint64_t number) = 0;
    /// Sets memory aside for batches; gives how much of it there is.
    virtual std::size_t GrantBatches(std::size_t bytes) = 0;
    /// Nothing follows number - 1.
    virtual void End(std::uint64_t number, const Status& status) = 0;
  };

  explicit PlanSink(Host* host) : host_(host) {}

  /// Continues what waited for a slot or room. True if rows are planned that still wait for one:
  /// then the planner takes no more blocks.
  virtual bool Continue() = 0;
  /// True if some planned rows are not yet written or delivered: memory will come back by
  /// itself.
  virtual bool Outstanding() = 0;
  /// Places of the pass that has just ended, if it had no batch, and its rest was dropped.
  virtual std::optional<std::uint64_t> rows_of_dropped_pass() const { return std::nullopt; }
  /// Of the rows so far, those for which it is known whether a cut drops them.
  struct Settled {
    std::uint64_t kept = 0;  ///< of RowTally::delivered, those that no cut drops any more
    std::uint64_t rows = 0;  ///< of RowTally::rows, those in front of a batch that is begun
  };
  /// The planner's call.
  virtual Settled settled() const { return {tally_.delivered, tally_.rows()}; }
  /// Number of the first delivery that is not wholly with the writers, or out.
  virtual std::uint64_t first_unfinished() const = 0;
  /// What is in deliveries so far, or will be. The planner's call.
  struct Planned {
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;       ///< of their records; only if asked for
    std::uint64_t deliveries = 0;  ///< that are complete
  };
  virtual Planned planned() const = 0;
  /// Counts of the rows so far. The planner's call.
  const RowTally& tally() const { return tally_; }
  /// Tells the host what the tally has more than it was told. Called before each delivery and the
  /// end: a consumer that has a delivery then finds its rows in the statistics. The planner's call.
  void EnterTally() {
    if (tally_ == entered_) return;
    host_->NoteRows(entered_, tally_);
    entered_ = tally_;
  }

 protected:
  /// Called at the end, if delivered_bytes are counted: rows that stages still hold are lost.
  void TallyHeld() {
    const std::optional<std::uint64_t> planned = host_->PlannedBytes();
    if (planned) tally_.lost_bytes = *planned - tally_.delivered_bytes;
  }

  Host* const host_;
  RowTally tally_;

 private:
  RowTally entered_;  ///< what the host was told
};

}  // namespace ringfeed
