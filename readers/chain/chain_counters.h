#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "readers/chain/live_chains.h"
#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/blocks/ledger.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/run.h"
#include "readers/order/plan_clock.h"
#include "readers/step_waits.h"
#include "ringfeed/stats.h"

namespace ringfeed {

/// Counts the steps of planned batches. Any thread.
class StepCounters {
 public:
  /// A batch that ends a step was delivered.
  void Note(const StepFacts& step);
  void Fill(PlannedStats* stats) const;

 private:
  /// The unit of the sums of imbalances.
  static constexpr double kPart = 1e-6;

  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint64_t> units_{0};
  std::atomic<std::uint64_t> padding_units_{0};
  std::atomic<std::uint64_t> imbalance_{0};        ///< of all steps, in parts
  std::atomic<std::uint64_t> worst_imbalance_{0};  ///< in parts
};

/// Counts what the reads of a chain deliver and wait for, and reports it together with what its
/// runs and its ledger count. The Note functions may be called by any thread at any time.
class ChainCounters {
 public:
  /// Both outlive it.
  ChainCounters(const ExecutionPlan& plan, const Ledger& ledger) : plan_(plan), ledger_(ledger) {}

  /// The clock of these times.
  static std::int64_t NowNs();
  void NoteDelivered(std::uint64_t bytes) {
    batches_.fetch_add(1, std::memory_order_relaxed);
    batch_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    step_waits_.EndStep();
  }
  /// The same of a batch, with its step.
  void NoteDelivered(const BatchBuffer& batch) {
    NoteDelivered(batch.payload_bytes.load(std::memory_order_relaxed));
    // One that a failure cut short comes again.
    if (batch.span.step.records > 0 && batch.span.uncounted == 0) steps_.Note(batch.span.step);
  }
  void NoteWait(std::int64_t ns) {
    wait_ns_.fetch_add(ns, std::memory_order_relaxed);
    step_waits_.NoteWait(ns);
  }
  /// A read has a delivery; the first one of a run counts.
  void NoteFirst() { SetOnce(&first_ns_); }
  /// A read has seen the end of the run.
  void NoteEnd() { SetOnce(&end_ns_); }
  bool has_first() const { return first_ns_.load(std::memory_order_relaxed) != 0; }
  bool has_ended() const { return end_ns_.load(std::memory_order_relaxed) != 0; }

  // What follows is called under the chain's mutex, except Explain.

  /// A run begins: times count from here.
  void NoteStart();
  /// Keeps the times of the stages of a run that is over, for Count.
  void KeepStages(const Run& ended) { ended_stages_ = StagesOfAllRuns(ended); }
  /// The totals of the chain; of the ledger alone if there is no run yet.
  void FillTotals(const Run* run, PipelineStats* stats) const;
  /// The rest of Reader::Stats: times, memory, and why it is not faster.
  void Explain(const Run& run, bool failed, PipelineStats* stats) const;
  /// For a look from outside, which waits for nothing.
  void Count(const Run& run, ChainCounts* counts) const;

 private:
  static void SetOnce(std::atomic<std::int64_t>* time_ns) {
    std::int64_t unset = 0;
    time_ns->compare_exchange_strong(unset, NowNs(), std::memory_order_relaxed);
  }
  std::vector<StageStats> StagesOfAllRuns(const Run& run) const;
  StageStats Deliver() const;
  void FillDelivered(PipelineStats* stats) const;

  const ExecutionPlan& plan_;
  const Ledger& ledger_;
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> batch_bytes_{0};
  std::atomic<std::int64_t> wait_ns_{0};  ///< consumers' waiting
  StepWaitCounts step_waits_;
  StepCounters steps_;
  std::atomic<std::int64_t> start_ns_{0};  ///< clock at the start of the run
  std::atomic<std::int64_t> first_ns_{0};  ///< clock at its first delivery; 0: not yet
  std::atomic<std::int64_t> end_ns_{0};    ///< clock when its end was seen; 0: not yet
  std::vector<StageStats> ended_stages_;   ///< of the runs before this one
};

}  // namespace ringfeed
