// One chain from its first read on: it starts runs, and hands out what they deliver.
//
// A user's threads call it through Reader, several at once. A lane's own thread calls it if another
// chain reads this one (a decorator, Share). Locks are taken in this order: rows_mutex_ or
// peek_mutex_, never both; planned_mutex_; mutex_. What holds: no thread waits for a delivery under
// mutex_. Several threads may take deliveries at once, or one looks ahead. The one that looks waits
// until the takers are done; threads that come to take meanwhile wait for what it finds. A delivery
// stays with the run that made it, and its generation tells whether that is the current run. After
// Pause and until Resume reads wait, and no run is at work.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/pending_copy.h"
#include "readers/chain/advice.h"
#include "readers/chain/live_chains.h"
#include "readers/chain/unsettled_batch.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/run.h"
#include "readers/engine/waiting/reading_turn.h"
#include "readers/order/position.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// When a waiting read gives up.
struct ReadLimits {
  /// If it can be requested, another chain reads, or a thread that hands on what it reads. The read
  /// fails soon after the request. Until then it waits even for what its own thread holds.
  std::stop_token stop{};
  /// Used only without a `stop`, and only while the read waits.
  Deadline deadline = kNoDeadline;
};

/// The life of one chain from its first read on: holds the plan, starts runs, hands their
/// deliveries to consumers and keeps what must outlast a run (the failure, the clock of the first
/// read). Thread safe.
class ReaderSession {
 public:
  /// `rewind_input`: of what a user's decorator reads.
  explicit ReaderSession(ExecutionPlan plan, RewindInput rewind_input = {});
  ~ReaderSession();

  const ExecutionPlan& plan() const { return plan_; }

  ReadResult ReadNext(Instance* instance, const ReadLimits& limits = {}) {
    BatchOrigin origin;
    return ReadNext(instance, &origin, limits);
  }
  /// `pending`: what is to be copied into the batch, valid as long as that is held, in the order of
  /// its places; null: it is copied here. `unsettled`: gets the batch if checksums are left (it has
  /// no origin before it is settled); else null.
  ReadResult ReadNext(Instance* instance, BatchOrigin* origin, const ReadLimits& limits = {},
                      std::span<const PendingCopy>* pending = nullptr,
                      std::shared_ptr<UnsettledBatch>* unsettled = nullptr);
  /// As in ReaderAccess.
  void BeginReading();
  void EndReading();
  /// Whether some BeginReading was not ended.
  bool is_read_ahead() const;
  /// Why checksums are not left, in a few words; empty if they are. As of the current run.
  std::string WhySumsAreEarly() const;
  /// `origin` may be null.
  ReadResult ReadBlock(RecordBlock* block, BatchOrigin* origin, const ReadLimits& limits);
  void ReserveBatches(std::size_t batches);
  /// Before the first read: long fields of rows are not copied, if the reads take `pending`. Only
  /// of a chain with Batch.
  void LeaveFields(const LeftFieldRules& rules);
  /// Offers reads into a device's memory to all runs, as ReaderAccess says.
  void ReadDirectly(std::shared_ptr<DirectReads> reads);
  /// kRecord, even if a failure comes next; kEnd; kTimeout.
  ReadResult HasNext(Deadline deadline = kNoDeadline);
  /// Waits until the end of the left-out part is known; false: not by the deadline.
  bool AwaitPosition(Deadline deadline);
  /// As ReaderAccess.
  std::int64_t RowsBefore() const;
  std::int64_t WholeRows() const;
  std::int64_t UsualRows() const;
  /// Whether the end of the left-out part is known now.
  bool KnowsPosition();
  /// As HasNext. With kRecord *pass is the next instance's, none if a failure comes next.
  ReadResult NextPass(std::optional<std::uint64_t>* pass, Deadline deadline = kNoDeadline);
  /// The two halves of ReInit. In between reads wait, and nothing of the input is taken. Resume
  /// throws Error if the source cannot start again.
  void Pause();
  void Resume();
  /// Call between the two, first on chains that read others: tells the chain that this one reads
  /// which pass of a data set comes next.
  void AimSource();
  /// Whether the calling thread is one of the run's: in a function or the source of the chain.
  bool IsWithin() const;
  void Close();
  /// Throws Error after Close.
  void CheckOpen() const;
  Status status() const;
  PipelineStats Stats() const;
  /// For a look from outside: see LiveList::Count. Waits for nothing, and keeps nothing.
  bool Count(ChainCounts* counts) const;

  /// Its position after what was handed out, or after that batch. Throws Error if its order does
  /// not come again.
  std::string Position(const BatchOrigin* behind = nullptr);
  /// Its position before anything was handed out.
  std::string StartPosition();
  std::vector<std::uint64_t> FileRecords();
  /// As Reader::MakeIndex.
  void MakeIndex(IndexPurpose purpose, const std::stop_token& stop);
  /// Resume starts there, once: after that position, or after so many batches. Throws Error if the
  /// data or the order are others. Builds an index if one is needed and missing.
  void AimAt(const std::string& position);
  /// Throws as AimAt does, and sets no aim.
  void CheckPosition(const std::string& position);
  void AimAt(std::uint64_t batch);
  /// Throws as AimAt does, and sets no aim.
  void CheckSeek();
  /// The same after `batches` more than were handed out.
  void AimBehind(std::uint64_t batches);
  /// Whether it has an aim that is not reached yet: that takes Pause and Resume. An aim before the
  /// first read is taken at once, though a read may begin right after it.
  bool has_aim() const;

  /// For tests: set before the first read.
  void set_hooks(const RunHooks& hooks) { hooks_ = hooks; }

 private:
  /// Plans the order by index; false if Close came meanwhile. Throws Error.
  bool PlanToRead();
  /// A delivery and the run that made it: they stay together even if a ReInit comes.
  struct Taken {
    std::shared_ptr<Run> run;
    Delivery delivery;
    std::uint64_t generation = 0;
    std::shared_ptr<const RunStart> start{};
  };
  /// Rows that are handed out are views of these; both live as long as the holder of the rows.
  struct Rows {
    std::shared_ptr<Run> run;
    const Delivery::Records* delivery = nullptr;
  };
  /// The origin of what was read.
  struct Origin {
    std::uint64_t generation = 0;
    std::shared_ptr<const RunStart> start{};  ///< of its run
    std::uint64_t pass = 0;
    OrderSpan span;
    std::vector<std::uint64_t> numbers{};  ///< of its rows' records, if that was asked for
    std::vector<std::uint64_t> damaged{};  ///< of records that are left out
    std::vector<std::size_t> failed{};     ///< rows that were taken out, as BatchBuffer::failures
    std::shared_ptr<const IndexedSource> indexed{};  ///< that they are numbers in; null: packed
  };
  /// The start of the next run, and what was handed out before that.
  struct Aimed {
    RunStart start;
    ChainPosition delivered;
    std::string how;
    /// `delivered` is what a chain says that read up to there. If false, what is left out depends
    /// on the records, and its end is known only after they are read.
    bool settled = true;
  };
  /// What was handed out before the run, and with it, and the run's start.
  struct Places {
    ChainPosition began;
    ChainPosition delivered;
    RunStart start;
  };
  Places Progress() const;
  /// The result of a wait: kStale if a ReInit ended the run under it.
  enum class Wait : std::uint8_t { kTaken, kEnd, kFailed, kTimeout, kStale };

  /// Under mutex_: drops what was read of run_, or looked at, and not handed out.
  void ForgetRead();
  /// Under mutex_: adds what the run took to ended_stages_, before a new one comes.
  void NoteEndedRun();
  /// Under mutex_: those of all runs.
  std::vector<StageStats> StagesOfAllRuns() const;
  /// The run to read from; null after Close, or if the limits came first. Makes the first run.
  std::shared_ptr<Run> CurrentRun(const ReadLimits& limits = {});
  std::shared_ptr<Run> MakeRun();
  static std::int64_t NowNs();
  using ReadingTurn = BasicReadingTurn<NativeQueuePolicy, std::mutex, Taken>;
  /// Calls await(until) until this thread's turn has come: kTaken. await sleeps until then, and
  /// releases mutex_, which `lock` holds. kTimeout or kFailed as WaitFor.
  Wait AwaitTurn(std::unique_lock<std::mutex>& lock, Run& run, const ReadLimits& limits,
                 const std::function<bool(Deadline)>& await);
  ReadResult TakeNext(Taken* taken, const ReadLimits& limits);
  /// HasNext; `for_position`: kRecord also once the end of the left-out part is known.
  ReadResult LookAhead(Deadline deadline, bool for_position);
  /// Whether rows are left of those that are handed out one by one, and of which pass: else kEnd.
  ReadResult LookAtRows(Deadline deadline, std::optional<std::uint64_t>* pass);
  /// LookAhead at what follows these rows.
  ReadResult LookBehindRows(Deadline deadline, bool for_position);
  /// kTaken: it is known now; kStale: look once more.
  Wait LookOnce(const std::shared_ptr<Run>& run, Deadline deadline, bool for_position);
  /// Gives deliveries that nobody will read back to their runs.
  static void LetGo(std::deque<Taken> taken);
  Wait WaitFor(const std::shared_ptr<Run>& run, Taken* taken, const ReadLimits& limits);
  /// Whether a delivery holds nothing to show to the user.
  bool IsHidden(const Delivery& delivery) const;
  /// Whether ReadNext hands it out.
  static bool Shows(const Delivery& delivery);
  void PassOver(const std::shared_ptr<Run>& run, Delivery delivery);
  /// The end is seen: what was passed over before it counts.
  void CountPassedOver(const Run& run);
  bool HoldsAllSlots(const Run& run);
  /// Waits for a delivery. False if the waiting threads, this one among them, hold what it would
  /// take, or if others have held it for long.
  bool WaitHeld(Run& run, Delivery* delivery, const ReadLimits& limits, QueueResult* result);
  /// Whether nothing has happened for a while, and nothing will until this thread or another one
  /// that waits lets something go. Or for a long while, whichever thread holds it.
  bool SeesItselfStarve(const Run& run);
  /// Why this run delivers nothing.
  std::optional<Starvation> StarvedNow(const Run& run) const;
  /// If a thread of ringfeed's waits here for what it was handed and others hold: how much of that
  /// was let go so far.
  std::optional<std::uint64_t> StarvedReader();
  void FailBecauseHeld(const Run& run);
  /// The result of a read if CurrentRun has none.
  ReadResult ResultWithoutRun(const ReadLimits& limits);
  /// Notes a failure of `run`; kStale if it is not the current one any more.
  Wait Fail(const Run& run, Status status);
  /// Whether damage that `run` failed with may be a parser that fits no record.
  bool MayBeMistake(const Run& run, const Status& status);
  /// The failure of a run of the same chain that skips damage, if that is such a mistake; else
  /// `damage`. Waits a few seconds at most.
  Status MistakeOr(const Status& damage);
  void NoteFirst();
  /// Under mutex_, with nothing at work: the current pass of a data set, this chain's or that of
  /// the chain which it reads; 0 if there is none.
  std::uint64_t SourcePass() const;
  /// How many of them a whole run goes through; one if it has no end.
  std::uint64_t SourcePassesOfRun() const;
  /// Starts that pass of it; a chain that is read is already there. Throws Error if it cannot.
  void RewindSource(std::uint64_t pass);
  /// The chain by its index; null, with the reason in *why, if it has none. Builds it, once. Throws
  /// Error with kCancelled if `stop` or Close ends that: the next call builds it then.
  std::shared_ptr<IndexedSource> Planned(std::string* why, const std::stop_token& stop = {});
  std::shared_ptr<IndexedSource> Plan(const std::stop_token& stop);
  /// The same number of batches, or that of the end if the index tells that there are fewer.
  std::uint64_t BatchOrEnd(IndexedSource* indexed, std::uint64_t batch) const;
  /// `counted`: the position is only a number of batches.
  void Aim(ChainPosition position, bool counted);
  /// KnowsPosition, under mutex_.
  bool Settle();
  /// Throws Error if it is of other data or of another order.
  ChainPosition Understood(const std::string& position);
  void RefuseToGoBack() const;
  /// The position with the other parts of its text. `start`: of its run.
  std::string TextOf(ChainPosition position, const RunStart& start);
  PlanPosition MarkOfMixture(IndexedSource& indexed, const RunStart& start,
                             std::uint64_t batch) const;
  /// The chain that the source reads, if it is a user's decorator; else null.
  std::shared_ptr<ReaderSession> InputSession() const;
  /// As the plan's, also with the input's reason.
  std::string WhyNoPosition() const;
  std::string OrderText() const;
  void RefuseWithoutPosition() const;
  /// Under mutex_: the next run starts there.
  void TakeAim(Aimed aimed);
  /// Positions are compared by this.
  DataFingerprint Fingerprint();
  /// The same for a chain that reads this one.
  DataFingerprint FingerprintAsInput();
  const char* PolicyName() const {
    return plan_.source.options.on_damage == OnDamage::kSkip ? "skip" : "fail";
  }
  /// Positions count so many rows at a time.
  std::uint64_t PositionRows() const { return plan_.batched ? plan_.batch.size : 1; }
  /// Of a batch. On chains without Batch, of row `row` of what was read.
  BatchOrigin OriginOf(const Origin& origin, std::size_t row = 0) const;
  static std::vector<RecordRange> RangesOf(const Origin& origin,
                                           std::span<const std::uint64_t> numbers);
  /// Notes what is handed out now.
  void NoteDelivered(const Origin& origin, const BatchOrigin& last);
  bool HasUserSource() const {
    return plan_.source.instances != nullptr || plan_.source.records != nullptr;
  }
  ReadResult ReadBatch(Instance* instance, Origin* origin, const ReadLimits& limits,
                       std::span<const PendingCopy>* pending = nullptr,
                       std::shared_ptr<UnsettledBatch>* unsettled = nullptr);
  class Unsettled;
  std::shared_ptr<UnsettledBatch> MakeUnsettled(Taken taken, BatchBuffer* slot,
                                                std::shared_ptr<const void> owner);
  static Origin OriginOf(const Taken& taken, const BatchBuffer& slot);
  /// Checks the sums that nobody will settle. False if nothing of the batch is left.
  bool SettleByCpu(const Taken& taken, BatchBuffer* slot);
  /// A batch was found to end in a failure after it was read: nothing after it counts as read.
  void FailBehind(Run& run, const BatchBuffer& slot);
  /// A batch of which nothing is left after it was read: as PassOver.
  void PassOverLate(const Run& run, const Origin& origin);
  /// `rows`, if it is not null: what the block is views of.
  ReadResult TakeBlock(RecordBlock* block, Origin* origin, const ReadLimits& limits,
                       Rows* rows = nullptr);
  /// A row is of a mapped file that was cut. That fails the reads of the run, or, if damage is
  /// skipped, enters the row as damaged. False if it fails.
  bool LoseShrunk(const Rows& rows, std::uint32_t row);
  /// For a delivery that is not handed out yet: views of lost records become null, and it ends
  /// before a failure.
  void LoseShrunk(const Rows& rows, Delivery::Records* delivery);
  ReadResult ReadRow(Instance* instance, BatchOrigin* origin, const ReadLimits& limits);
  ReadResult FetchRows(const ReadLimits& limits);
  void DropRows();
  /// False if there is no row, or this one was lost.
  bool TakeRow(Instance* instance);
  void CopyParsedRow(Instance* instance);
  ChainFacts FactsOf(const Run& run) const;

  ExecutionPlan plan_;  ///< fixed once a run is made
  const std::shared_ptr<const FieldNames> names_;
  std::mutex planned_mutex_;  ///< guards what follows; taken before mutex_
  std::shared_ptr<IndexedSource> indexed_;
  std::string not_planned_;  ///< why there is none, once that was found out
  std::optional<DataFingerprint> fingerprint_;
  const RewindInput rewind_input_;
  ChainKeeps kept_;  ///< of all runs
  RunHooks hooks_;

  std::condition_variable_any resumed_;  ///< with mutex_
  bool paused_ = false;
  bool begun_ = false;             ///< as BeginReading said; with mutex_
  std::size_t reading_ahead_ = 0;  ///< calls of BeginReading that were not ended; with mutex_
  std::timed_mutex peek_mutex_;    ///< one thread at a time looks ahead; taken before mutex_
  mutable std::mutex mutex_;       ///< guards run_, the failure and what was looked at ahead
  /// Which threads take or look ahead, what was looked at, whether it failed; with mutex_. Blocks
  /// of damaged records alone, which ReadNext passes over, do not show.
  ReadingTurn turn_;
  std::shared_ptr<Run> run_;
  /// Of run_, or of the first one to come. It does not change during a run.
  std::shared_ptr<RunStart> start_ = std::make_shared<RunStart>();
  std::optional<Aimed> aim_;                  ///< the start of the next run, for Resume
  std::optional<std::uint64_t> wanted_pass_;  ///< at which Resume starts the source
  bool settled_ = true;                       ///< as Aimed, of began_
  ChainPosition began_;                       ///< what was handed out before the run
  ChainPosition delivered_;                   ///< what was handed out: only batch, run and mark
  std::string restored_;                      ///< how the run came to its start
  std::vector<std::uint64_t> passed_over_;    ///< damaged records of batches that had no other rows
  std::optional<ChainPosition> passed_;       ///< after the last of these: only batch and mark
  std::vector<std::uint64_t> passed_late_;    ///< as passed_over_, of batches that were settled
  std::size_t unsettled_ = 0;                 ///< batches of run_ that were read; with mutex_
  std::uint64_t generation_ = 0;              ///< number of run_, from 0
  std::mutex ending_mutex_;                   ///< one FailBehind at a time; taken before mutex_
  std::optional<std::uint64_t> failed_at_;    ///< the first batch of run_ that was found to fail
                                              ///< after it was read; with mutex_
  Status failure_;
  bool closed_ = false;
  bool given_up_ = false;      ///< it is closed and nobody takes from run_ any more
  std::stop_source planning_;  ///< of the index that is being made
  /// When everything was first, and last, seen to wait for what its consumers hold.
  struct Starved {
    Deadline since;
    Deadline seen;
    Starvation how;
  };
  std::optional<Starved> starved_;

  // Rows of a delivery on their way out one by one, on chains without Batch. Taken before mutex_.
  std::timed_mutex rows_mutex_;
  Instance rows_instance_;
  std::shared_ptr<const void> rows_hold_;
  Rows rows_source_;
  std::span<const RecordSpan> rows_records_;
  std::size_t rows_ = 0;
  std::size_t row_ = 0;
  Origin rows_origin_;

  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> batch_bytes_{0};
  std::atomic<std::int64_t> wait_ns_{0};   ///< consumers' waiting
  std::atomic<std::int64_t> start_ns_{0};  ///< clock at the first read, 0 before
  std::atomic<std::int64_t> first_ns_{0};  ///< clock at the first delivery
  std::atomic<std::int64_t> end_ns_{0};

  bool shown_ = true;                       ///< whether LiveChains may show it
  std::vector<StageStats> ended_stages_;    ///< of the runs before run_; with mutex_
  LiveList<ChainCounts>::Membership live_;  ///< with mutex_, but for Leave; goes before all else
};

}  // namespace ringfeed
