// One run: its threads, and what is between them.
//
// A session makes, starts and stops it, on the thread that reads, restarts or closes the chain.
// Consumers take deliveries (Next, TryNext, NextUntil) and hold them (Lease). The workers are the
// run's own threads: each fills the blocks of its own lanes, writes rows, and runs the plan when it
// has something for it. The plan and the writers call the functions of Planner::Host on workers; a
// consumer calls Drop and NoteSkipped too. What holds: members marked as a worker's are touched on
// its thread alone. The holder of a delivery keeps the run.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/batches/batch_sink.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/blocks/block_pool.h"
#include "readers/engine/direct_run.h"
#include "readers/engine/files/file_schedule.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/plan/ledger.h"
#include "readers/engine/plan/parser_judge.h"
#include "readers/engine/plan/planner.h"
#include "readers/engine/sources/lane.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/engine/sources/worker_io.h"
#include "readers/engine/waiting/late_wakes.h"
#include "readers/engine/waiting/memory_budget.h"
#include "readers/engine/waiting/outbox.h"
#include "readers/engine/waiting/plan_turn.h"
#include "readers/engine/waiting/read_ahead.h"
#include "readers/engine/waiting/taken_ahead.h"
#include "readers/engine/waiting/worker_pool.h"
#include "readers/order/chunk_plan.h"
#include "ringfeed/queue/mpmc_ring.h"

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

/// The points at which a run calls a test's hook.
enum class RunPoint : std::uint8_t {
  kSetUp,     ///< a worker makes what it works with
  kNewBlock,  ///< the pool of blocks grows
  kPlan,      ///< a block is planned
};

/// What a test may put in the place of the real thing.
struct RunHooks {
  EngineFactory engines;
  /// Called at each wake of a worker, by any thread: whether to leave it out, as a mistake in the
  /// protocol would.
  std::function<bool()> leaves_out_wake{};
  /// Called by workers at these points; may throw, as a lack of memory does.
  std::function<void(RunPoint)> at{};
  /// Payloads of so many bytes or more are checked as they are written; see leaves_sums_.
  std::size_t long_payload_bytes = 8192;
  /// They are framed alike, but checked at once.
  bool takes_sums_at_once = false;
  /// After waiting so long for nothing a consumer has all workers look again.
  std::chrono::milliseconds silence{1000};
  /// If threads that do not ask for more let nothing go for so long, what they hold is taken for
  /// held by the program: the threads that wait for it are told.
  std::chrono::milliseconds held_silence{10'000};
};

/// Nothing comes before a delivery is let go: see Run::StarvedBy.
struct Starvation {
  bool all_ask = false;    ///< all holders ask for more; else some of them may be at work
  std::uint64_t mark = 0;  ///< another one once something has happened
  friend bool operator==(const Starvation&, const Starvation&) = default;
};

/// What a chain keeps from run to run.
struct ChainKeeps {
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::shared_ptr<KeptMappings> mappings = std::make_shared<KeptMappings>();
  std::shared_ptr<CacheRoom> cache_room = std::make_shared<CacheRoom>();
  bool read_before = false;  ///< by an earlier run
};

/// One execution of a plan, from its first record to its end or its stop: the threads, the rings
/// between them and the memory in flight. Every ReInit makes a new one. What a run handed out keeps
/// it alive.
///
/// Every worker thread reads and frames blocks of its own lanes, and writes rows into batches. A
/// thread that finds published blocks, while none plans, takes the plan further. Only a ring or an
/// atomic counter is between them.
class Run final : public Planner::Host, public std::enable_shared_from_this<Run> {
 public:
  /// `rewind_input`: see RewindInput. `indexed`: if not null, records are read by its index.
  Run(const ExecutionPlan& plan, RewindInput rewind_input, std::shared_ptr<Arena> arena,
      const RunHooks& hooks, const RunStart& start, std::shared_ptr<IndexedSource> indexed,
      ChainKeeps chain);
  ~Run() override;

  void Start();
  /// Stops all threads and waits for them. Delivers nothing any more. Memory that no consumer holds
  /// goes back to the arena, that of records once no consumer holds any. Idempotent; not from a
  /// worker.
  void Stop();

  /// Waits for the next delivery. kOk, kClosed (the end: see end_status), kStopped: the run was
  /// stopped, or `stop` was requested.
  QueueResult Next(Delivery* delivery, const std::stop_token& stop = {});
  /// The same without waiting: kEmpty.
  QueueResult TryNext(Delivery* delivery);
  /// Waits until the deadline: also kTimeout. StarvedBy then tells whether nothing will come before
  /// some thread lets go of what it holds.
  QueueResult NextUntil(Delivery* delivery, Deadline deadline, const std::stop_token& stop = {});
  /// Whether deliveries are held and no worker has anything to do. If seen twice with the same
  /// mark, and nothing happened between, that stays so until a delivery is let go.
  std::optional<Starvation> StarvedBy() const;
  /// Whether no worker has anything to do but wait for the user's reader that is read.
  bool WaitsForSource() const;
  std::chrono::milliseconds held_silence() const { return hooks_.held_silence; }
  /// The thread that took this delivery holds it for others: the next one that asks gets it. From
  /// the taking to Lease or this call the taker does not ask, and StarvedBy says nothing.
  void NoteSeen(Delivery* delivery);
  Holders& holders() { return holders_; }
  const Holders& holders() const { return holders_; }
  Status end_status() const;
  Status failure() const;

  /// An owner for a delivery's memory: gives it back when its last copy goes.
  std::shared_ptr<const void> Lease(Delivery delivery);

  // Only for runs that deliver batches. The holder of the batch by Lease may call the next three,
  // on any thread, even after Stop. One call at a time for one batch; several at once for different
  // ones. None waits for another thread.

  /// Its tensors, which share `owner`: the batch is held until the last of them goes.
  Instance MakeInstance(const BatchBuffer& batch, const std::shared_ptr<const void>& owner) const {
    return batch_sink_->MakeInstance(batch, owner);
  }
  /// Copies the fields that were left for the batch's taker; if none were, does nothing.
  Status CopyPending(BatchBuffer* batch) const { return batch_sink_->CopyPending(batch); }
  /// Takes the checksums that were left and have these numbers, and loses the rows that do not
  /// match: see BatchSink::LosePayloads. The batch may get shorter: make tensors after this.
  void LosePayloads(std::span<const std::uint32_t> sums, BatchBuffer* batch) const {
    batch_sink_->LosePayloads(sums, batch);
  }
  /// Whether deliveries are batches, else records. The same for the run's life; any thread.
  bool delivers_batches() const { return batch_sink_ != nullptr; }
  /// So many batches exist at most. 0: not known yet, since none was planned; or records are
  /// delivered. Any thread, at any time.
  std::size_t most_batches() const {
    return batch_sink_ != nullptr ? batch_sink_->slot_limit() : 0;
  }

  /// Threads that read and write, and CPUs that this process may use.
  int threads() const { return static_cast<int>(pool_.writers()); }
  int cpus() const { return cpus_; }
  /// The position after all that the run leaves out at its start; none before that is planned.
  std::optional<PlanPosition> left_out() const;
  /// Null if records are read as files come.
  const std::shared_ptr<IndexedSource>& indexed() const { return indexed_; }

  /// Wakes that were left out, and that a consumer found: defects, of this run and of all runs of
  /// the process so far.
  std::uint64_t late_wakes() const { return late_wakes_.count(); }
  static std::uint64_t LateWakesOfProcess() { return LateWakes::OfProcess(); }

  /// Why the checksums of payloads are taken as records are framed, and not left to the taker of a
  /// batch; empty if they are left.
  const std::string& why_sums_are_early() const { return why_sums_are_early_; }
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
  ArenaReport arena_report() const { return arena_->Report(); }
  const Arena& arena() const { return *arena_; }

  // Planner::Host.
  void Submit(WriteTask* task, std::uint32_t near_lane) override;
  void Drop(Block* block, std::uint32_t rows) override;
  bool Keep(Block* block) override;
  void LetGo(Block* block) override;
  void Deliver(std::uint64_t number, Delivery delivery) override;
  void NoteRows(const RowTally& before, const RowTally& now) override;
  void NoteSkipped(const RecordSpan& record, const Status& why) override;
  void NoteLostPayload(const DamagedRange& range, std::size_t bytes) override;
  void NoteLostOfDropped(std::uint64_t rows) override;
  void NoteLeftOut(const PlanPosition& behind) override;
  std::optional<std::uint64_t> PlannedBytes() override { return planner_->bytes_taken(); }
  void BatchDone() override;
  bool HasRoom(std::uint64_t number) override;
  std::size_t GrantBatches(std::size_t bytes) override;
  void End(std::uint64_t number, const Status& status) override;
  /// See Outbox::NoteEnd.
  void EndAt(std::uint64_t number, const Status& status, bool within);
  bool HasLeftOut() const override { return left_out().has_value(); }
  bool stopping() const override { return stop_.stop_requested(); }
  Status WorkerFailure() const override;
  bool TakeDue(std::size_t lane, Block** block) override;
  bool TakeAny(std::size_t lane, Block** block) override;
  bool MayHold(const Block& block, Status* never) override;
  void NotePlanned(const Block& block) override;
  void NoteBacklog(bool backlogged) override {
    backlogged_.store(backlogged, std::memory_order_relaxed);
  }

 private:
  /// A lane with what is between it and the planner.
  struct LaneState {
    LaneState(std::uint32_t number, std::size_t credits) : index(number), out(credits + 2) {}
    const std::uint32_t index;
    std::unique_ptr<Lane> lane;  ///< its worker's
    Block* filling = nullptr;    ///< its worker's
    /// Its worker's: passes ended, and stripes of this one published. Lanes are filled in the order
    /// of this pair, which is the order of the plan.
    std::pair<std::uint64_t, std::uint64_t> place;
    bool done = false;  ///< its worker's
    std::uint32_t worker = 0;
    MpmcRing<Block*> out;
  };
  struct Worker {
    explicit Worker(std::size_t number) : index(number) {}
    const std::size_t index;
    std::vector<LaneState*> lanes;
    LaneContext context;
    std::unique_ptr<WorkerIo> io;
    std::mutex io_mutex;  ///< guards `io` against wakers while it is made and destroyed
    WriterScratch scratch;
    bool has_let_go = false;             ///< of its lanes
    bool frames_turn = true;             ///< rather than writing: its turn is not framed
    const std::byte* fetched = nullptr;  ///< the start of the bytes that were last asked for ahead
    std::unique_ptr<Parser::Scratch> locate_scratch;
    StageClock read, decompress, frame, filter, plan, write, wait_medium, wait_slot, wait_other;
    StageCount read_bytes;
  };

  /// Throws Error if a shuffle's tables would be larger than the arena.
  void CheckTables(const ExecutionPlan& whole) const;
  /// Locates the rows of a block that was read, and asks of them what the chain's content needs.
  void LocateFields(Worker& worker, Block* block);
  /// Whether checksums of that pass may be left. Not before a good record was planned, so that a
  /// parser that fits none, or a pass without any, is noticed as ever; and not of what the run
  /// leaves out.
  bool MayLeaveSums(const Block& block, std::uint64_t pass) const;
  void BuildPlanner();
  /// `holds_rows`: stages in front of it do.
  std::unique_ptr<PlanSink> MakeSink(PlanClock* clock, bool holds_rows);
  /// Rows of a delivery that is no batch of the user's and no piece of a block, at most.
  std::size_t SmallDelivery() const;
  void BuildLanes();
  std::size_t BuildSchedule();
  std::size_t BuildChunks();
  /// Which rows of each batch are written here, if several ranks share them.
  void ShareBatches(BatchSink::Options* options) const;
  void AddOwnThreads(std::size_t lanes);
  /// How much they may take ahead.
  TakenAhead::Limits AheadLimits() const;
  void AddWorker(bool writes);
  WorkerPool<WriteTask*>::Hooks PoolHooks();
  std::unique_ptr<Lane> MakeLane(std::size_t number, LaneContext* context);
  void WorkerMain(Worker& worker);
  void SetUp(Worker& worker);
  void WorkOnce(Worker& worker);
  void At(RunPoint point) const {
    if (hooks_.at) hooks_.at(point);
  }
  /// Ends the run with this failure after what is planned. Called by a worker that stops reading.
  void FailBehindPlan(Worker& worker, const Status& status);
  /// Nothing more is read: see Lane::LetGo.
  static void LetGoOfLanes(Worker& worker);
  /// Frames the next part of the worker's turn; false if it should write first.
  bool FrameTurn(Worker& worker);
  enum class Tasks : std::uint8_t { kOwn, kAny };
  bool WriteRows(Worker& worker, Tasks tasks);
  /// While rows are written, fetches what this worker will frame next into its cache.
  void FetchUpcoming(Worker& worker);
  bool ReadLane(Worker& worker);
  LaneState* NextLane(Worker& worker, const std::vector<LaneState*>& tried) const;
  static void FailBlock(Block* block);  ///< in a handler of what was thrown
  bool FillBlock(Worker& worker, LaneState& lane);
  void Publish(Worker& worker, LaneState& lane);
  void SleepUntilWork(Worker& worker);
  /// Whether the worker may not sleep. A thread that makes it true calls Wake: see the definition.
  bool HasWork(const Worker& worker) const;
  /// Whether an empty lane may begin a block.
  bool MayFill(const LaneState& lane) const;
  /// Waits for a delivery. If none comes it has all workers look again.
  QueueResult Await(Delivery* delivery, Deadline deadline, const std::stop_token& stop);
  /// Whether a block that a lane has begun may get further.
  static bool MayGoOn(const Worker& worker, const LaneState& lane);

  /// Runs the plan, unless another thread does; whether it got further.
  bool RequestPlan(Worker* worker);
  void RecycleBlock(Block* block);
  /// Drops one reason to keep the block's memory, kHeld or 1; after the last it goes.
  void DropKeep(Block* block, std::uint32_t keep);
  void GiveCredits(LaneState& lane, std::int32_t count, std::size_t bytes);
  void ReleaseDelivery(const Delivery& delivery);
  /// A consumer took it out of the outbox: it belongs to the consumer until ReleaseDelivery. False
  /// if Stop came first.
  bool Claim(const Delivery& delivery);
  QueueResult Claimed(QueueResult taken, const Delivery& delivery) {
    return taken == QueueResult::kOk && !Claim(delivery) ? QueueResult::kClosed : taken;
  }
  /// A consumer has one Delivery::Records less.
  void NoteRecordsBack();
  void LetGoOfMemory();
  void AskForPlan();
  /// Tells taken_ahead_ what was planned, or handed out, and wakes the lanes that it held back.
  void NotePlannedAhead(const Worker& planner);
  void NoteTaken(const Delivery& delivery);
  void NoteAsking();
  void WakeLanes();
  /// The worker whose cache the lane's rows are in.
  std::size_t WriterFor(std::uint32_t lane);
  /// What a lane may have ahead of the plan, of so many lanes.
  void SetCredits(std::size_t lanes, std::size_t stripe_bytes);
  std::size_t ReadingBytes(std::size_t lanes) const;
  void ReserveMemory(std::size_t lanes);
  bool KeepBytes(std::size_t bytes) { return direct_ ? direct_.Keep(bytes) : budget_->Keep(bytes); }
  void LetGoOfBytes(std::size_t bytes) { direct_ ? direct_.LetGo(bytes) : budget_->LetGo(bytes); }
  /// What each lane may read ahead by index.
  std::size_t AheadBytes() const;
  /// What a worker may frame before its turn in file order comes.
  std::size_t FramedAheadBytes() const;
  /// Tells the ledger and the mappings that the chain keeps. Does not need the run.
  FileNews News() const;
  /// Of a run of so many passes, those before its start too.
  FileRereads Rereads(std::uint64_t passes) const;

  static constexpr std::uint64_t kNoPass = ~std::uint64_t{0};
  const int cpus_;
  DirectRun direct_;                      ///< empty, if blocks are in host memory
  const std::size_t stages_by_index_;     ///< that the order by index has already
  const ExecutionPlan plan_;              ///< without these
  const std::string why_sums_are_early_;  ///< empty: they go with fields that are left
  /// Framing leaves checksums: to the copier of fields that are left, or to the writer. A long
  /// payload would otherwise be loaded twice, for its checksum and for its copy.
  const bool leaves_sums_;
  const RunStart start_;
  const std::shared_ptr<IndexedSource> indexed_;  ///< null: as files are read
  const RewindInput rewind_input_;
  const std::shared_ptr<Ledger> ledger_;
  const std::shared_ptr<KeptMappings> mappings_;
  const std::shared_ptr<CacheRoom> cache_room_;
  const bool read_before_;
  const bool unordered_;  ///< blocks are planned as they come
  const std::shared_ptr<Arena> arena_;
  const std::shared_ptr<Arena> read_arena_;  ///< that blocks are of: arena_, or a device's
  const RunHooks hooks_;
  LateWakes late_wakes_;
  std::optional<MemoryBudget> budget_;  ///< from the construction on
  std::size_t lane_credits_ = 0;        ///< of each lane
  std::size_t part_credits_ = 1;        ///< credits that a part takes after it was read
  std::size_t credit_bytes_ = 1;        ///< slabs of one credit of a lane
  std::stop_source stop_;

  std::unique_ptr<FileSchedule> schedule_;
  std::unique_ptr<ChunkPlan> chunks_;  ///< or this one, of rows in these files
  std::unique_ptr<OpenedFiles> opened_files_;
  std::vector<std::unique_ptr<LaneState>> lanes_;
  std::vector<std::unique_ptr<Worker>> workers_;  ///< those that write first
  bool share_tasks_ = false;                      ///< idle workers are woken for every task
  WorkerPool<WriteTask*> pool_;
  ReadAhead read_ahead_;
  TakenAhead taken_ahead_;  ///< by lanes with threads of their own
  PlanTurn plan_turn_;

  std::optional<Planner> planner_;   ///< from the construction on
  BatchSink* batch_sink_ = nullptr;  ///< the planner's; null if records are delivered
  // Of the thread that runs the plan.
  std::uint64_t plan_steps_ = 0;  ///< blocks taken, tasks submitted, records delivered
  std::uint32_t next_writer_ = 0;
  TakenAhead::Amount planned_;  ///< of blocks that taken_ahead_ was not told of yet
  bool hold_credits_ = true;    ///< a block's credit comes back when its memory does

  /// failure_ is set. Partner: WorkerFailure.
  std::atomic<bool> failed_{false};
  /// The plan has come to its end. Partners: WorkOnce and HasWork.
  std::atomic<bool> ended_{false};
  /// Rows wait for a slot: for statistics only.
  std::atomic<bool> backlogged_{false};
  /// A pass of which a good record with a checked sum was planned. May be a moment old: a sum that
  /// is taken early only costs more.
  std::atomic<std::uint64_t> trusted_pass_{kNoPass};
  /// Passes that ended before the failure that EndBehind was called for.
  std::atomic<std::uint64_t> passes_at_failure_{kNoPass};
  std::optional<PlannedSums> ended_at_;  ///< set by EndBehind: what still counts

  BasicOutbox<NativeQueuePolicy, Delivery> out_;
  Holders holders_;
  ParserJudge judge_;

  mutable std::mutex status_mutex_;  ///< guards what follows; taken on rare events only
  std::optional<PlanPosition> left_out_;
  Status failure_;  ///< of a worker, on its way to the plan

  BlockPool blocks_;
  /// Deliveries of records that consumers have, and kLetGo after the rest was let go of. The thread
  /// that leaves kLetGo alone lets go of the blocks. Changed by read-modify-writes.
  std::atomic<std::uint64_t> held_records_{0};
  static constexpr std::uint64_t kLetGo = std::uint64_t{1} << 63;

  std::mutex stop_mutex_;
  bool let_go_ = false;  ///< with stop_mutex_
};

}  // namespace ringfeed
