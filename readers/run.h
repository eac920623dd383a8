#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "readers/batch_sink.h"
#include "readers/file_schedule.h"
#include "readers/graph.h"
#include "readers/lane.h"
#include "readers/opened_files.h"
#include "readers/order/chunk_plan.h"
#include "readers/plan_clock.h"
#include "readers/plan_sink.h"
#include "readers/planned_source.h"
#include "readers/run_start.h"
#include "readers/stage_clock.h"
#include "readers/worker_io.h"
#include "ringfeed/event_count.h"
#include "ringfeed/mpmc_ring.h"
#include "ringfeed/sequenced_ring.h"

namespace ringfeed {

/// What a test may put in the place of the real thing.
struct RunHooks {
  EngineFactory engines;
};

/// One execution of a program, from its first record to its end or its stop: the threads, the rings
/// between them and the memory in flight. A new one is made for every ReInit; what was handed out
/// by this one keeps it alive.
///
/// Every worker thread reads and frames blocks of its own lanes, and writes rows into batches;
/// whichever thread finds blocks published and nobody planning takes the plan further. Nothing but
/// a ring or an atomic counter stands between them.
class Run final : public PlanHost, public std::enable_shared_from_this<Run> {
 public:
  /// `input`: what a user's decorator reads; may be null. `planned`: where not null, records are
  /// read by its index.
  Run(const Program& program, std::shared_ptr<GraphNode> input, std::shared_ptr<Arena> arena,
      const RunHooks& hooks, const RunStart& start, std::shared_ptr<PlannedSource> planned);
  ~Run() override;

  void Start();
  /// Stops all threads and waits for them. Idempotent; not from a worker.
  void Stop();

  /// Waits for the next delivery. kOk, kClosed (the end: see end_status), kStopped: the run was
  /// stopped, or `stop` was requested.
  QueueResult Next(Delivery* delivery, const std::stop_token& stop = {});
  /// The same without waiting: kEmpty.
  QueueResult TryNext(Delivery* delivery);
  /// Waits until the deadline: also kTimeout. To a consumer that holds records StarvedBy then tells
  /// whether nothing will come before that thread lets go of what it holds.
  QueueResult NextUntil(Delivery* delivery, Deadline deadline);
  bool HoldsRecords(std::thread::id thread) const;
  bool StarvedBy(std::thread::id thread) const;
  Status end_status() const;
  bool stopping() const { return stop_.stop_requested(); }

  /// An owner for a delivery's memory: gives it back when its last copy goes.
  std::shared_ptr<const void> Lease(Delivery delivery);
  BatchSink* batch_sink() const { return batch_sink_; }
  /// Null where records are read as files come.
  const std::shared_ptr<PlannedSource>& planned() const { return planned_; }

  void FillStats(PipelineStats* stats) const;
  ArenaReport arena_report() const { return arena_->Report(); }

  // PlanHost.
  void Submit(WriteTask* task, std::uint32_t near_lane) override;
  void Drop(Block* block, std::uint32_t rows) override;
  void Deliver(std::uint64_t number, Delivery delivery) override;
  void NoteSkipped(const RecordSpan& record, const Status& why) override;
  void BatchDone(bool freed) override;
  bool HasRoom(std::uint64_t number) const override;
  std::size_t GrantBatches(std::size_t bytes) override;
  void End(std::uint64_t number, const Status& status) override;

 private:
  /// A lane with what stands between it and the planner.
  struct LaneState {
    LaneState(std::uint32_t number, std::size_t credits)
        : index(number), out(credits + 2), free_credits(static_cast<std::int32_t>(credits)) {}
    const std::uint32_t index;
    std::unique_ptr<Lane> lane;  ///< its worker's
    Block* filling = nullptr;    ///< its worker's
    /// Its worker's: passes ended, and stripes of this one published. Lanes are filled in the order
    /// of this pair, which is the order of the plan.
    std::pair<std::uint64_t, std::uint64_t> place;
    bool done = false;  ///< its worker's
    std::uint32_t worker = 0;
    MpmcRing<Block*> out;
    /// Blocks that the lane may still fill. Taken by the worker (acquire), given back with release.
    std::atomic<std::int32_t> free_credits;
  };
  struct Worker {
    explicit Worker(std::size_t number) : index(number), tasks(kTaskRing) {}
    const std::size_t index;
    std::vector<LaneState*> lanes;
    bool writes = true;  ///< takes tasks; false for the thread of a lane that may block for long
    MpmcRing<WriteTask*> tasks;
    EventCount events;
    /// Payload bytes of its lanes' blocks that were published and not given back. Partner:
    /// GiveCredits.
    std::atomic<std::size_t> ahead_bytes{0};
    /// Bit 0: the worker is about to sleep, or sleeps, in its engine. Read-modify-writes (acq_rel)
    /// on both sides: a waker comes first, and its work is seen, or comes second, and sees the bit.
    std::atomic<std::uint32_t> engine_word{0};
    LaneContext context;
    std::unique_ptr<WorkerIo> io;
    std::mutex io_mutex;  ///< guards `io` against wakers while it is made and destroyed
    WriterScratch scratch;
    const std::byte* fetched = nullptr;  ///< where the bytes start that were last asked for ahead
    std::unique_ptr<Parser::Scratch> locate_scratch;
    StageClock read, decompress, frame, plan, write, wait_medium, wait_slot, wait_other;
    StageCount read_bytes;
    std::thread thread;
  };
  static constexpr std::size_t kTaskRing = 4096;

  /// Throws Error where a shuffle's or a grouping's tables would be larger than the arena.
  void CheckTables(const Program::Stage& stage) const;
  void BuildStages();
  /// Locates the rows of a block that was read, and asks of them what the chain's content needs.
  void LookInto(Worker& worker, Block* block);
  void BuildLanes();
  std::size_t BuildSchedule();
  std::size_t BuildChunks();
  /// Which rows of each batch are written here, where several ranks share them.
  void ShareBatches(BatchSink::Options* options) const;
  void AddOwnThreads(std::size_t lanes);
  std::unique_ptr<Lane> MakeLane(std::size_t number, LaneContext* context);
  bool PopBlock(Block** block);
  bool PopAnyBlock(Block** block);
  void WorkerMain(Worker& worker);
  bool DoTask(Worker& worker);
  /// While rows are written, what this worker will frame next comes into its cache.
  void FetchUpcoming(Worker& worker);
  bool DoLane(Worker& worker);
  LaneState* NextLane(Worker& worker, const std::vector<LaneState*>& tried) const;
  static void FailBlock(Block* block, const std::string& what);
  bool FillBlock(Worker& worker, LaneState& lane);
  void Publish(Worker& worker, LaneState& lane);
  void Rest(Worker& worker);
  bool HasWork(const Worker& worker) const;
  bool MayFill(const Worker& worker, const LaneState& lane) const;

  void RequestPlan(Worker* worker);
  void RunPlan();
  bool TakeBlock();
  bool MemoryAllows(const Block& block);
  void PlanBlock(Block* block);
  void NoteDamage(const Block& block);
  void EndPass();
  void Finish(const Status& status);

  Block* NewBlock();
  void RecycleBlock(Block* block);
  void GiveCredits(LaneState& lane, std::int32_t count, std::size_t bytes);
  void WakeAny(std::uint32_t preferred);
  void Wake(Worker& worker);
  void ReleaseDelivery(const Delivery& delivery);
  void NoteHolder(std::thread::id thread, bool takes);
  void AskForPlan();
  bool TakeTask(Worker& worker, WriteTask** task);
  bool IsIdle(const Worker& worker) const;
  Worker& WriterFor(std::uint32_t lane);
  void ReserveMemory();
  /// Has the quota grow so that it covers these, or the limit; false where the arena has not that
  /// much left, or the limit is less than what is held alone. The planner's, as what it sets.
  bool Cover(std::size_t held_limit, std::size_t batches_bytes);
  /// Has the plan hold back `needed` bytes and, where it can be, twice what it held, so that the
  /// quota grows seldom.
  bool GrowHeld(std::size_t needed);
  std::size_t MostHeld() const { return (memory_limit_ - lane_bytes_) * 3 / 4; }
  /// What each lane may read ahead by index.
  std::size_t AheadBytes() const;
  void NoteOpened(const IoChoice& choice);

  const std::size_t stages_by_index_;  ///< that the order by index has already
  const Program program_;              ///< without these
  const RunStart start_;
  const std::shared_ptr<PlannedSource> planned_;  ///< null: as files are read
  const std::shared_ptr<GraphNode> input_;
  const bool unordered_;  ///< blocks are planned as they come
  const std::shared_ptr<Arena> arena_;
  const RunHooks hooks_;
  std::size_t memory_limit_ = 0;  ///< what the quota may grow to
  std::size_t lane_bytes_ = 0;    ///< of the quota: for reading
  std::size_t ahead_limit_ = 0;   ///< payload bytes that a worker frames ahead of writing them
  std::size_t credit_bytes_ = 1;  ///< slabs that one credit of a lane stands for
  std::stop_source stop_;

  std::unique_ptr<FileSchedule> schedule_;
  std::unique_ptr<ChunkPlan> chunks_;  ///< or this one, of rows in these files
  std::unique_ptr<OpenedFiles> opened_files_;
  std::vector<std::unique_ptr<LaneState>> lanes_;
  std::vector<std::unique_ptr<Worker>> workers_;  ///< those that write first
  std::size_t writers_ = 0;
  bool share_tasks_ = false;  ///< idle workers are woken for every task

  // The planner's: touched only by the thread that runs the plan.
  PlanClock clock_;
  std::vector<std::unique_ptr<PlanStage>> stages_;
  PlanStage* first_stage_ = nullptr;
  PlanSink* sink_ = nullptr;
  BatchSink* batch_sink_ = nullptr;
  std::size_t memory_bytes_ = 0;   ///< quota
  std::size_t held_limit_ = 0;     ///< of it: for blocks that the plan holds back
  std::size_t batches_bytes_ = 0;  ///< of it: for batches
  std::size_t turn_ = 0;           ///< lane whose block is due
  std::vector<bool> lane_in_pass_;
  std::uint64_t pass_rows_ = 0;
  bool ended_ = false;
  Block* waiting_block_ = nullptr;  ///< taken from its lane, waits for memory
  std::uint32_t next_writer_ = 0;
  bool hold_credits_ = true;  ///< a block's credit comes back when its memory does

  /// Requests to run the plan that were not served; who raises it from 0 serves. acq_rel on both
  /// sides.
  std::atomic<std::uint32_t> plan_requests_{0};
  /// Asked for by threads that do not plan themselves. Partner: the exchange in WorkerMain.
  std::atomic<bool> plan_wanted_{false};
  /// Rows wait for a slot: for statistics only.
  std::atomic<bool> backlogged_{false};
  std::atomic<std::size_t> held_bytes_{0};  ///< slabs of blocks that were taken and not recycled

  SequencedRing<Delivery> out_;
  mutable std::mutex status_mutex_;  ///< guards what follows; taken on rare events only
  Status end_status_;
  std::vector<DamagedRange> damage_;
  std::vector<IoChoice> choices_;
  std::unordered_map<std::string, std::size_t> choice_of_file_;

  std::mutex overflow_mutex_;  ///< guards tasks for which no ring had room: many tiny pieces
  std::vector<WriteTask*> overflow_;
  std::atomic<std::size_t> overflow_count_{0};  ///< a hint; the mutex orders

  std::mutex blocks_mutex_;  ///< guards the pool's growth
  std::vector<std::unique_ptr<Block>> blocks_;
  MpmcRing<Block*> free_blocks_;

  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> payload_bytes_{0};
  std::atomic<std::uint64_t> damaged_{0};
  std::atomic<std::uint64_t> passes_ended_{0};
  std::atomic<std::uint64_t> reopened_{0};
  std::atomic<std::uint64_t> filtered_{0};
  std::atomic<std::uint64_t> truncated_{0};
  std::mutex stop_mutex_;
  std::atomic<std::size_t> deliveries_out_{0};  ///< handed over and not released

  // Whether the plan waits for what consumers hold: looked at after a while of silence, so a moment
  // old is new enough.
  std::atomic<std::size_t> due_lane_{0};
  std::atomic<bool> plan_waits_for_memory_{false};
  mutable std::mutex holders_mutex_;                                 ///< guards what follows
  std::unordered_map<std::thread::id, std::size_t> record_holders_;  ///< deliveries of each
};

}  // namespace ringfeed
