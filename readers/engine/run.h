// One run: its threads, and what is between them.
//
// A session makes, starts and stops it, on the thread that reads, restarts or closes the chain.
// Consumers take deliveries (Next, TryNext, NextUntil) and hold them (Lease). What happens between
// is the parts' (run_parts.h): workers fill blocks, write rows and run the plan. The holder of a
// delivery keeps the run.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/batches/batch_sink.h"
#include "readers/engine/batches/delivery.h"
#include "readers/engine/run_parts.h"
#include "readers/engine/waiting/holders.h"
#include "readers/engine/waiting/late_wakes.h"
#include "readers/engine/waiting/stall_detector.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/stats.h"

namespace ringfeed {

/// The blocks and credits between a lane and the plan at the moment.
struct LaneCounts {
  std::size_t ready_blocks = 0;  ///< framed, and not taken by the plan yet
  std::int64_t credits = 0;      ///< parts of 128 KiB of a file, else blocks; below 0 by large ones
};

/// What a run has in its hands at the moment; the figures are not of one instant.
struct RunCounts {
  /// If there are more lanes than these, only their number is reported.
  static constexpr std::size_t kMostLanes = 64;
  std::vector<LaneCounts> lanes;
  std::size_t lane_count = 0;
  int threads = 0;
  std::size_t ready = 0;       ///< deliveries that are finished, or soon will be, and not taken
  std::size_t held = 0;        ///< deliveries that consumers hold
  std::size_t held_bytes = 0;  ///< of blocks that the plan holds back
  std::size_t memory_limit_bytes = 0;  ///< what the chain may grow to
};

/// One execution of a plan, from its first record to its end or its stop: the threads, the rings
/// between them and the memory in flight. Every ReInit makes a new one. What a run handed out keeps
/// it alive.
class Run final : public std::enable_shared_from_this<Run> {
 public:
  explicit Run(RunInput input) : parts_(std::move(input), this) {}
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void Start();
  /// Stops all threads and waits for them. Delivers nothing any more. Memory that no consumer holds
  /// goes back to the arena, that of records once no consumer holds any. Idempotent; not from a
  /// worker.
  void Stop();

  /// The next delivery. kOk, kClosed (the end: see end_status), kEmpty.
  QueueResult TryNext(Delivery* delivery);
  /// Waits for it until the deadline. kOk, kClosed, kStopped: the run was stopped, or `stop` was
  /// requested. kTimeout: StarvedBy then tells whether nothing will come before some thread lets go
  /// of what it holds.
  QueueResult NextUntil(Delivery* delivery, Deadline deadline, const std::stop_token& stop = {});
  /// Whether deliveries are held and no worker has anything to do. If seen twice with the same
  /// mark, and nothing happened between, that stays so until a delivery is let go.
  std::optional<Starvation> StarvedBy() const;
  /// Whether no worker has anything to do but wait for the user's reader that is read.
  bool WaitsForSource() const { return parts_.stalls.WaitsForSource(); }
  std::chrono::milliseconds held_silence() const { return parts_.options.held_silence; }
  /// The thread that took this delivery holds it for others: the next one that asks gets it. From
  /// the taking to Lease or this call the taker does not ask, and StarvedBy says nothing.
  void NoteSeen(Delivery* delivery);
  Holders& holders() { return parts_.stalls.holders(); }
  const Holders& holders() const { return parts_.stalls.holders(); }
  /// Why the deliveries end.
  Status end_status() const;

  /// An owner for a delivery's memory: gives it back when its last copy goes.
  std::shared_ptr<const void> Lease(Delivery delivery);

  // Only for runs that deliver batches. The holder of the batch by Lease may call the next three,
  // on any thread, even after Stop. One call at a time for one batch; several at once for different
  // ones. None waits for another thread.

  /// Its tensors, which share `owner`: the batch is held until the last of them goes.
  Instance MakeInstance(const BatchBuffer& batch, const std::shared_ptr<const void>& owner) const {
    return parts_.batch_sink->MakeInstance(batch, owner);
  }
  /// Copies the fields that were left for the batch's taker; if none were, does nothing.
  Status CopyPending(BatchBuffer* batch) const {
    return parts_.batch_sink->finisher().CopyPending(batch);
  }
  /// Takes the checksums that were left and have these numbers, and loses the rows that do not
  /// match: see BatchFinisher::LosePayloads. The batch may get shorter: make tensors after this.
  void LosePayloads(std::span<const std::uint32_t> sums, BatchBuffer* batch) const {
    parts_.batch_sink->finisher().LosePayloads(sums, batch);
  }
  /// Whether deliveries are batches, else records. The same for the run's life; any thread.
  bool delivers_batches() const { return parts_.batch_sink != nullptr; }
  /// So many batches exist at most. 0: not known yet, since none was planned; or records are
  /// delivered. Any thread, at any time.
  std::size_t most_batches() const {
    return parts_.batch_sink != nullptr ? parts_.batch_sink->pool().slot_limit() : 0;
  }

  /// Threads that read and write, and CPUs that this process may use.
  int threads() const { return static_cast<int>(parts_.workers.writers()); }
  int cpus() const { return parts_.cpus; }
  /// The position after all that the run leaves out at its start; none before that is planned.
  std::optional<PlanPosition> left_out() const { return parts_.planner->sink().left_out(); }
  /// Null if records are read as files come.
  const std::shared_ptr<IndexedSource>& indexed() const { return parts_.indexed; }

  /// Wakes that were left out, and that a consumer found: defects, of this run and of all runs of
  /// the process so far.
  std::uint64_t late_wakes() const { return parts_.stalls.late_wakes().count(); }
  static std::uint64_t LateWakesOfProcess() { return LateWakes::OfProcess(); }

  /// Why the checksums of payloads are taken as records are framed, and not left to the taker of a
  /// batch; empty if they are left.
  const std::string& why_sums_are_early() const { return parts_.sums.why_early(); }
  /// The batch, which a consumer holds, ends before a record that failed after later ones were
  /// planned (failed_payload_pass): the run stops, and nothing after the batch counts. Later calls
  /// are for earlier batches; one at a time.
  void EndBehind(const BatchBuffer& batch);

  /// Adds this run's figures to those that the ledger has of all.
  void FillStats(PipelineStats* stats) const;
  /// What it has in its hands now.
  RunCounts Counts() const;
  /// What the ledger gets of the run after it was stopped.
  Ledger::RunTotals Totals() const;
  ArenaReport arena_report() const { return parts_.arena->Report(); }
  bool stopping() const { return parts_.stopping(); }
  const Arena& arena() const { return *parts_.arena; }

 private:
  static constexpr std::uint64_t kNoPass = ~std::uint64_t{0};

  /// A consumer took it: it belongs to the consumer until Release. False if Stop came first.
  bool Claim(const Delivery& delivery);
  QueueResult Claimed(QueueResult taken, const Delivery& delivery) {
    return taken == QueueResult::kOk && !Claim(delivery) ? QueueResult::kClosed : taken;
  }
  void Release(const Delivery& delivery);

  RunParts parts_;

  std::mutex stop_mutex_;
  bool let_go_ = false;  ///< with stop_mutex_

  /// Passes that ended before the failure that EndBehind was called for.
  std::atomic<std::uint64_t> passes_at_failure_{kNoPass};
  std::optional<PlannedSums> ended_at_;  ///< set by EndBehind: what still counts
};

}  // namespace ringfeed
