#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "readers/engine/batches/deliveries.h"
#include "readers/engine/blocks/ledger.h"
#include "readers/engine/blocks/row_tally.h"
#include "readers/engine/blocks/run_memory.h"
#include "readers/engine/stages/plan_stage.h"
#include "readers/engine/waiting/task_router.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The parts of a run that its sink works with. They outlive it.
struct SinkParts {
  RunMemory* memory = nullptr;
  Ledger* ledger = nullptr;
  Deliveries* deliveries = nullptr;
  TaskRouter* tasks = nullptr;  ///< of a BatchSink
};

/// The last stage of the plan: turns rows in their final order into deliveries.
class PlanSink : public PlanStage {
 public:
  explicit PlanSink(const SinkParts& parts) : parts_(parts) {}

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
  /// So many tasks were submitted, and deliveries of records made: whether the plan got further.
  std::uint64_t steps() const { return steps_; }
  /// Enters into the ledger what the tally has more than it was told. Called before each delivery
  /// and the end: a consumer that has a delivery then finds its rows in the statistics. The
  /// planner's call.
  void EnterTally() {
    if (tally_ == entered_) return;
    parts_.ledger->Add(entered_, tally_);
    entered_ = tally_;
  }

  /// Where the deliveries end: nothing follows number - 1.
  struct End {
    std::uint64_t number = 0;
    Status status;
  };
  /// The end that came in since the last call. The planner's call, which checks it and tells it.
  std::optional<End> TakeEnd() { return std::exchange(end_, std::nullopt); }
  /// The position after all that the run leaves out at its start; none before that is planned. Any
  /// thread.
  std::optional<PlanPosition> left_out() const {
    const std::lock_guard lock(mutex_);
    return left_out_;
  }
  /// A block of so many payload bytes, filtered rows aside, is planned. The planner's call, before
  /// the block's rows come in.
  void NotePlannedBytes(std::uint64_t bytes) { planned_bytes_ += bytes; }
  /// Of all blocks so far. By the planner, or if none is at work.
  std::uint64_t planned_bytes() const { return planned_bytes_; }

 protected:
  /// At the end: tells it after the last delivery. `counts_bytes`: delivered_bytes are counted, and
  /// rows that stages still hold are lost.
  void EndAt(std::uint64_t number, const Status& status, bool counts_bytes) {
    if (counts_bytes) tally_.lost_bytes = planned_bytes_ - tally_.delivered_bytes;
    EnterTally();
    end_ = End{number, status};
  }
  void NoteLeftOut(const PlanPosition& behind) {
    const std::lock_guard lock(mutex_);
    left_out_ = behind;
  }

  const SinkParts parts_;
  RowTally tally_;
  std::uint64_t steps_ = 0;

 private:
  RowTally entered_;  ///< what the ledger was told
  std::uint64_t planned_bytes_ = 0;
  std::optional<End> end_;
  mutable std::mutex mutex_;  ///< guards what follows; taken on rare events only
  std::optional<PlanPosition> left_out_;
};

}  // namespace ringfeed
