// The plan of a run: which block is next, and at which point the run ends.
//
// The run makes it before its threads start, and calls GoOn when there may be something to plan:
// on the worker that finds that, never on two at once. Other threads may ask for what is marked so.
// What holds: GoOn does not wait. When it returns, there is nothing to plan, or something must come
// back first, and the thread that brings it asks for the plan again. The planner touches no
// record's bytes.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "readers/engine/batches/deliveries.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/blocks/block.h"
#include "readers/engine/blocks/late_sums.h"
#include "readers/engine/blocks/ledger.h"
#include "readers/engine/blocks/ready_blocks.h"
#include "readers/engine/blocks/run_memory.h"
#include "readers/engine/files/file_schedule.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/stages/order_stages.h"
#include "readers/engine/stages/plan_stage.h"
#include "readers/engine/waiting/first_failure.h"
#include "readers/engine/waiting/source_limit.h"
#include "readers/order/chunk_plan.h"
#include "readers/order/plan_clock.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Which lane's block is planned next: lanes in turn, in a pass those that still have some of it.
/// Only the planner uses it.
class LaneTurns {
 public:
  explicit LaneTurns(std::size_t lanes) : in_pass_(lanes, true) {}

  std::size_t lanes() const { return in_pass_.size(); }
  bool IsInPass(std::size_t lane) const { return in_pass_[lane]; }
  /// The lane whose turn it is. There is one: see IsPassOver.
  std::size_t Due() {
    while (!in_pass_[due_]) due_ = Next(due_);
    return due_;
  }
  /// Without turns: a look at all lanes begins here.
  std::size_t first_look() const { return due_; }
  /// The turn goes to the lane after this one.
  void EndTurn(std::size_t lane) { due_ = Next(lane); }
  /// The lane has no more of this pass.
  void EndPassOf(std::size_t lane) { in_pass_[lane] = false; }
  bool IsPassOver() const {
    return std::none_of(in_pass_.begin(), in_pass_.end(), [](bool in) { return in; });
  }
  /// All lanes again, from the first one.
  void StartPass() {
    in_pass_.assign(in_pass_.size(), true);
    due_ = 0;
  }

 private:
  std::size_t Next(std::size_t lane) const { return (lane + 1) % in_pass_.size(); }

  std::vector<bool> in_pass_;
  std::size_t due_ = 0;
};

/// The stages of a run's plan, each linked to the next, and the clock that they share. Only the
/// planner uses it once it runs.
class PlanStages {
 public:
  /// Those that order rows; SetSink adds the last one. `start`: the clock begins there.
  PlanStages(const ExecutionPlan& plan, const PlanPosition& start);

  void SetSink(std::unique_ptr<PlanSink> sink);

  PlanClock* clock() { return &clock_; }
  PlanStage* first() const { return stages_.front().get(); }
  PlanSink* sink() const { return sink_; }
  /// After the stages that shuffle. Null if none does: the order is then the blocks'.
  FailureStage* failure_stage() const { return failure_stage_; }

 private:
  void AddFailureStage(const ExecutionPlan& plan);

  PlanClock clock_;
  std::vector<std::unique_ptr<PlanStage>> stages_;
  FailureStage* failure_stage_ = nullptr;
  PlanSink* sink_ = nullptr;
};

/// Decides which block is next, and hands its rows to the stages: takes turns with the lanes, ends
/// passes, counts what it sees, and finds out when the run ends and why. It owns the stages and the
/// account of the pass, and touches no record's memory.
///
/// A thread that finds something to plan calls it, one at a time (PlanTurn): a worker that
/// published a block, or one that was asked because a slot, memory or room for a delivery came
/// back. It never waits: if it cannot go on it returns, and the thread that changes that asks again
/// (docs/internals/WAITING.md says which).
class Planner {
 public:
  /// What it plans, and with what, for the time of the run. It owns only the stages.
  struct Input {
    const ExecutionPlan* plan = nullptr;     ///< without the stages that the index has done
    std::size_t stages_by_index = 0;         ///< so many of these
    RunStart start{};                        ///< the start of the run
    const IndexedSource* indexed = nullptr;  ///< null if records are read as files come
    ChunkPlan* chunks = nullptr;             ///< of `indexed`
    FileSchedule* schedule = nullptr;        ///< of files in their order
    std::size_t lanes = 1;
    bool unordered = false;                        ///< blocks are planned as they come
    std::stop_token stop{};                        ///< nothing is planned any more
    const FirstFailure* worker_failure = nullptr;  ///< ends the run after what is planned
    Ledger* ledger = nullptr;
    ReadyBlocks* ready = nullptr;
    RunMemory* memory = nullptr;
    LateSums* sums = nullptr;
    SourceLimit* source = nullptr;
    Deliveries* deliveries = nullptr;
    std::unique_ptr<PlanStages> stages;
  };
  explicit Planner(Input input);

  /// Plans until there is nothing to plan, something has to come back first, or the run ended. What
  /// a stage throws ends the run after what is planned.
  void GoOn();

  /// The failure if more damage than max_damaged allows was found so far, in blocks or by writers;
  /// else OK. Any thread.
  Status WhyTooMuchDamage() const;

  /// Passes over the source that ended, with those before the run's start. Any thread.
  std::uint64_t passes_ended() const { return passes_ended_.load(std::memory_order_relaxed); }
  /// The same, for passes that ended before a row that failed: a shuffle may hold rows of a pass
  /// until after its end. Any thread.
  std::uint64_t passes_come() const {
    const std::uint64_t ended = passes_ended();
    return failure_stage_ == nullptr ? ended : std::min(ended, failure_stage_->failed_pass());
  }
  /// Whether a row that fails ends the order at its own place, and not at its block's. Any thread.
  bool fails_in_order() const { return failure_stage_ != nullptr; }
  /// Whether rows wait for a slot or room: for statistics only. Any thread.
  bool is_backlogged() const { return backlogged_.load(std::memory_order_relaxed); }
  /// The last stage.
  const PlanSink& sink() const { return *sink_; }
  /// Blocks that were taken, and what the sink counts: whether the plan got further. By the thread
  /// that calls GoOn.
  std::uint64_t steps() const { return blocks_ + sink_->steps(); }

 private:
  /// What one pass over the source brought.
  struct Pass {
    std::uint64_t rows = 0;          ///< good ones
    RowTally before;                 ///< of the sink, at its beginning
    std::uint64_t taken_before = 0;  ///< rows_taken_ at its beginning
    bool is_empty = true;            ///< of records, also damaged and filtered ones, and of damage
    bool is_whole = true;            ///< it was begun at its beginning
    bool losses_noted = false;
    // If it joins passes over the data: the one since which no good row came, and `rows` then.
    std::optional<std::uint64_t> quiet_since{};
    std::uint64_t quiet_rows = 0;
  };

  bool PlanNext();
  bool TakeBlock(Block** block);
  bool MayHold(const Block& block, Status* never);
  void PlanBlock(Block* block);
  void NotePlanned(const Block& block);
  void HandOn(Block* block);
  /// What a block ends: a turn, a pass or the run. A copy, since the block is gone.
  struct BlockEnds {
    std::size_t lane;
    bool turn;
    bool pass;
    bool stream;
    bool denied;
    Status status;
    std::optional<std::uint64_t> data_pass;  ///< of its rows, if it has any
  };
  void Follow(const BlockEnds& ends);
  void NoteWarnings(std::span<const DataWarning> warnings);
  /// Of a strict run, the warning that ends it after that block: its own, or at the end of a pass
  /// that of a file without a block.
  Status WhyNotStrict(const BlockEnds& ends) const;
  /// Enters what a block brings into the ledger.
  void EnterBlock(const Block& block);
  /// Whether all rows of the pass that ended were read, and all rows so far came to the end of the
  /// plan, if it saw that end: before, it had seen `passes_seen`.
  Status CheckSums(std::uint64_t passes_seen) const;
  /// Notes losses that have no place in the order by index, at the beginning of each pass.
  void NoteLosses();
  /// Damage in `file` was met in what a run leaves out that continues a chain of another policy.
  void NoteOtherOrder(const std::string& file);
  void EndPass();
  /// Why further passes over these data, which have no end, would bring nothing; or OK.
  Status WhyPassesAreVain();
  /// The same for a pass that joins passes over the data and has no end: of a block's rows.
  Status WhyJoinedPassesAreVain(std::optional<std::uint64_t> data_pass);
  /// The same for a pass without a row for this rank, or whose rows all came to nothing.
  Status WhyNoRowCame() const;
  /// What is known of passes that brought nothing so far. Stages may hold back a pass that is
  /// joined to the next one, and drop it later.
  struct Quiet {
    RowTally since{};                        ///< the sink's tally when this began, at the end of a
                                             ///< pass
    std::uint64_t kept = 0;                  ///< as PlanSink::Settled, then
    std::uint64_t from = 0;                  ///< rows_kept_ then
    std::optional<std::uint64_t> a_pass{};   ///< rows_kept_ after its first pass
    std::optional<std::uint64_t> to_come{};  ///< RowTally::rows once all of that pass came
  };
  /// At the end of each pass: whether all of a pass came to its end, and none of its rows is
  /// delivered here, nor may be. Passes that are joined give a rank other rows each time.
  bool BringsNothing();
  /// Whether a later pass reads files that this one did not: other ranks' share.
  bool GetsOtherFiles() const;
  /// Whether this pass found nothing at all, so that later ones will not either.
  bool IsLikeAllPasses() const;
  void Finish(const Status& status);
  /// Tells the deliveries of an end that came to the sink.
  void TellEnd();
  /// An end that is OK: checks the sums of all rows, if the sink had all of them.
  Status CheckedEnd(const Status& given) const;
  /// Ends with a failure that has no place in the order: nothing that a shuffle holds is delivered.
  void FinishWithoutPlace(const Status& why);

  const Input input_;
  const ExecutionPlan& plan_;
  PlanSink* const sink_;
  FailureStage* const failure_stage_;
  bool warned_ = false;                 ///< by a block
  const std::uint64_t warned_before_;   ///< as damaged_before_
  const std::uint64_t damaged_before_;  ///< by earlier runs
  LaneTurns turns_;
  Pass pass_;
  Status other_order_;                ///< why what is left out was delivered in another order
  const std::uint64_t most_held_;     ///< rows that the stages hold back
  const std::uint64_t most_dropped_;  ///< rows that they may drop in turn, and keep others
  Quiet quiet_;
  std::uint64_t blocks_ = 0;      ///< taken so far
  std::uint64_t rows_taken_ = 0;  ///< of these
  std::uint64_t rows_kept_ = 0;   ///< of these, what no filter drops
  bool ended_ = false;
  bool checks_end_ = false;  ///< the end of all is under way, and all rows come to it
  bool broken_ = false;      ///< a stage threw: what is planned goes out, the plan goes no further
  Block* waiting_block_ = nullptr;  ///< taken from its lane, waits for memory
  std::atomic<bool> backlogged_{false};
  std::atomic<std::uint64_t> passes_ended_;  ///< others read it for statistics
};

}  // namespace ringfeed
