// One chain from its first read on: it starts runs, and hands out what they deliver.
//
// A user's threads call it through Reader, several at once. A lane's own thread calls it if another
// chain reads this one (a decorator, Share). Locks are taken in this order: rows_mutex_ or
// peek_mutex_, never both; planned_mutex_; mutex_. What holds: no thread waits for a delivery under
// mutex_. Several threads may take deliveries at once, or one looks ahead: who looks waits until
// those are done, and who comes to take meanwhile waits for what is found. A delivery stays with
// the run that made it, and its generation tells whether that is the current run. After Pause and
// until Resume reads wait, and no run is at work.

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

/// What ends a read that waits.
struct ReadLimits {
  /// Where it can be requested it is another chain that reads, or whoever hands on what was read:
  /// the read fails soon after the request, and waits also for what its thread holds itself.
  std::stop_token stop{};
  /// Without a `stop` alone. Looked at only while the read waits.
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
  /// its places; null: it is copied here.
  /// `unsettled`: gets the batch where checksums are left (it has no origin before it is settled);
  /// else null.
  ReadResult ReadNext(Instance* instance, BatchOrigin* origin, const ReadLimits& limits = {},
                      std::span<const PendingCopy>* pending = nullptr,
                      std::shared_ptr<UnsettledBatch>* unsettled = nullptr);
  /// As in ReaderAccess.
  void BeginReading();
  void EndReading();
  /// Whether somebody reads ahead who said so.
  bool is_read_ahead() const;
  /// Why checksums are not left, in a few words; empty where they are. As of the run at hand.
  std::string WhySumsAreEarly() const;
  /// `origin` may be null.
  ReadResult ReadBlock(RecordBlock* block, BatchOrigin* origin, const ReadLimits& limits);
  void ReserveBatches(std::size_t batches);
  /// Before the first read: long fields of rows stay where they were read, if whoever reads takes
  /// `pending`. Of a chain with Batch alone.
  void LeaveFields(const LeftFieldRules& rules);
  /// Offers runs from the first on what reads into a device's memory: as ReaderAccess says.
  void ReadDirectly(std::shared_ptr<DirectReads> reads);
  /// kRecord, also where a failure comes next; kEnd; kTimeout.
  ReadResult HasNext(Deadline deadline = kNoDeadline);
  /// Waits until it is known where what is left out ends; false: not by the deadline.
  bool AwaitPosition(Deadline deadline);
  /// As ReaderAccess.
  std::int64_t RowsBefore() const;
  std::int64_t WholeRows() const;
  std::int64_t UsualRows() const;
  /// Whether it is known now.
  bool KnowsPosition();
  /// kTimeout, or the same and *pass, which is none where no instance comes next.
  ReadResult NextPass(std::optional<std::uint64_t>* pass, Deadline deadline = kNoDeadline);
  /// The two halves of ReInit. In between readers wait, and nothing of the input is taken. Resume
  /// throws Error where the source cannot start again.
  void Pause();
  void Resume();
  /// Between the two, and on those first that read others: the chain that this one reads is told
  /// which pass of a data set is to come.
  void AimSource();
  /// Whether the calling thread is one of the run's: in a function of the chain, or its source.
  bool IsWithin() const;
  void Close();
  /// Throws Error behind Close.
  void CheckOpen() const;
  Status status() const;
  PipelineStats Stats() const;
  /// For whoever looks from outside: see LiveList::Count. Waits for nothing, and keeps nothing.
  bool Count(ChainCounts* counts) const;

  /// Where it stands behind what was handed out, or behind that batch. Throws Error where its order
  /// does not come again.
  std::string Position(const BatchOrigin* behind = nullptr);
  /// Where it stood before anything was handed out.
  std::string StartPosition();
  std::vector<std::uint64_t> FileRecords();
  /// As Reader::MakeIndex.
  void MakeIndex(IndexPurpose purpose, const std::stop_token& stop);
  /// What Resume starts at, once: behind that position, or behind so many batches. Throws Error
  /// where the data or the order are others. Builds an index where one is needed and missing.
  void AimAt(const std::string& position);
  /// Throws as that does, and aims nowhere.
  void CheckPosition(const std::string& position);
  void AimAt(std::uint64_t batch);
  /// Throws as that does, and aims nowhere.
  void CheckSeek();
  /// The same behind `batches` more than were handed out.
  void AimBehind(std::uint64_t batches);
  /// Whether it was aimed somewhere and is not there yet: then it takes Pause and Resume. An aim
  /// before the first read is taken at once, though a read may begin right after it.
  bool has_aim() const;

  /// For tests: set before the first read.
  void set_hooks(const RunHooks& hooks) { hooks_ = hooks; }

 private:
  /// Plans the order by index; false where Close came meanwhile. Throws Error.
  bool PlanToRead();
  /// A delivery and the run that made it: they stay together, whatever ReInit does meanwhile.
  struct Taken {
    std::shared_ptr<Run> run;
    Delivery delivery;
    std::uint64_t generation = 0;
    std::shared_ptr<const RunStart> start{};
  };
  /// What rows that are handed out are views of; both live as long as what holds the rows.
  struct Rows {
    std::shared_ptr<Run> run;
    const Delivery::Records* delivery = nullptr;
  };
  /// Where what was read comes from.
  struct Origin {
    std::uint64_t generation = 0;
    std::shared_ptr<const RunStart> start{};  ///< of its run
    std::uint64_t pass = 0;
    OrderSpan span;
    std::vector<std::uint64_t> numbers{};  ///< of its rows' records, where that was asked for
    std::vector<std::uint64_t> damaged{};  ///< of records that are left out
    std::vector<std::size_t> failed{};     ///< rows that were taken out, as BatchBuffer::failures
    std::shared_ptr<const IndexedSource> indexed{};  ///< that they are numbers in; null: packed
  };
  /// Where the next run starts, and what was handed out before that.
  struct Aimed {
    RunStart start;
    ChainPosition delivered;
    std::string how;
    /// That is what a chain says that was read up to there. What is left out depends on what is in
    /// the records, and where it ends is known once they were read.
    bool settled = true;
  };
  /// What was handed out before the run, and with it, and where it began.
  struct Places {
    ChainPosition began;
    ChainPosition delivered;
    RunStart start;
  };
  Places Progress() const;
  /// What became of a wait: kStale where a ReInit ended the run under it.
  enum class Wait : std::uint8_t { kTaken, kEnd, kFailed, kTimeout, kStale };

  /// Under mutex_: what was read of run_, or looked at, and was not handed out, never will be.
  void ForgetRead();
  /// Under mutex_: what the run took goes into ended_stages_, for a new one comes.
  void NoteEndedRun();
  /// Under mutex_: those of all runs.
  std::vector<StageStats> StagesOfAllRuns() const;
  /// The run to read from; null once closed, and where the limits came first. Makes the first one.
  std::shared_ptr<Run> CurrentRun(const ReadLimits& limits = {});
  std::shared_ptr<Run> MakeRun();
  static std::int64_t NowNs();
  using ReadingTurn = BasicReadingTurn<NativeQueuePolicy, std::mutex, Taken>;
  /// Has await(until), which sleeps until then without mutex_, that `lock` has, until this thread's
  /// turn has come: kTaken; kTimeout, or kFailed, as WaitFor.
  Wait AwaitTurn(std::unique_lock<std::mutex>& lock, Run& run, const ReadLimits& limits,
                 const std::function<bool(Deadline)>& await);
  ReadResult TakeNext(Taken* taken, const ReadLimits& limits);
  /// HasNext; `for_position`: kRecord also once it is known where what is left out ends.
  ReadResult LookAhead(Deadline deadline, bool for_position);
  /// Whether rows are left of what is handed out one by one, and of which pass: else kEnd.
  ReadResult LookAtRows(Deadline deadline, std::optional<std::uint64_t>* pass);
  /// LookAhead at what comes behind these.
  ReadResult LookBehindRows(Deadline deadline, bool for_position);
  /// kTaken: that is known now; kStale: look once more.
  Wait LookOnce(const std::shared_ptr<Run>& run, Deadline deadline, bool for_position);
  /// Gives the memory of what nobody will read back to its runs.
  static void LetGo(std::deque<Taken> taken);
  Wait WaitFor(const std::shared_ptr<Run>& run, Taken* taken, const ReadLimits& limits);
  /// Whether a delivery holds nothing that the user is to see.
  bool IsHidden(const Delivery& delivery) const;
  /// Whether ReadNext hands it out.
  static bool Shows(const Delivery& delivery);
  void PassOver(const std::shared_ptr<Run>& run, Delivery delivery);
  /// The end is seen: what was passed over in front of it counts.
  void CountPassedOver(const Run& run);
  bool HoldsAllSlots(const Run& run);
  /// Waits for a delivery; false if what it would take is held by those who wait, this thread among
  /// them, or, for long, by others.
  bool WaitHeld(Run& run, Delivery* delivery, const ReadLimits& limits, QueueResult* result);
  /// Whether nothing has happened for a while, nor will before something is let go by this thread
  /// or another that waits; or for a long while, whoever holds it.
  bool SeesItselfStarve(const Run& run);
  /// Why nothing comes of this run.
  std::optional<Starvation> StarvedNow(const Run& run) const;
  /// Of a thread of ringfeed's that waits here for what it was handed and others hold: how much of
  /// that was let go so far.
  std::optional<std::uint64_t> StarvedReader();
  void FailBecauseHeld(const Run& run);
  /// What a read says where CurrentRun has none.
  ReadResult ResultWithoutRun(const ReadLimits& limits);
  /// Notes a failure of `run`; kStale where it is not the current one any more.
  Wait Fail(const Run& run, Status status);
  /// Whether damage that `run` failed with may be a parser that fits no record.
  bool MayBeMistake(const Run& run, const Status& status);
  /// What a run of the same chain that skips damage fails with, where that is such a mistake; else
  /// `damage`. Waits a few seconds at most.
  Status MistakeOr(const Status& damage);
  void NoteFirst();
  /// Under mutex_, with nothing at work: the pass that a data set is in, this chain's or that of
  /// the chain which it reads; 0 where there is none.
  std::uint64_t SourcePass() const;
  /// So many of them a run goes through that is not left; one where it has no end.
  std::uint64_t SourcePassesOfRun() const;
  /// Starts that pass of it; a chain that is read stands there already. Throws Error where it
  /// cannot.
  void RewindSource(std::uint64_t pass);
  /// The chain by its index; null, with the reason in *why, where it has none. Builds it, once.
  /// Throws Error with kCancelled where `stop` or Close ends that: the next call builds it then.
  std::shared_ptr<IndexedSource> Planned(std::string* why, const std::stop_token& stop = {});
  std::shared_ptr<IndexedSource> Plan(const std::stop_token& stop);
  /// The same number of batches, or that of the end, if the index tells it and there are not so
  /// many.
  std::uint64_t BatchOrEnd(IndexedSource* indexed, std::uint64_t batch) const;
  /// `counted`: the position is a number of batches alone.
  void Aim(ChainPosition position, bool counted);
  /// KnowsPosition, under mutex_.
  bool Settle();
  /// Throws Error where it is of other data or of another order.
  ChainPosition Understood(const std::string& position);
  void RefuseToGoBack() const;
  /// With what stands in the text besides. `start`: where the run began.
  std::string TextOf(ChainPosition position, const RunStart& start);
  PlanPosition MarkOfMixture(IndexedSource& indexed, const RunStart& start,
                             std::uint64_t batch) const;
  /// The chain that the source reads, where it is a user's decorator; else null.
  std::shared_ptr<ReaderSession> InputSession() const;
  /// As the plan's, with what the input says of itself.
  std::string WhyNoPosition() const;
  std::string OrderText() const;
  void RefuseWithoutPosition() const;
  /// Under mutex_: from here on a run starts there.
  void TakeAim(Aimed aimed);
  /// What positions are compared by.
  DataFingerprint Fingerprint();
  /// The same as whoever reads this chain asks for it.
  DataFingerprint FingerprintAsInput();
  const char* PolicyName() const {
    return plan_.source.options.on_damage == OnDamage::kSkip ? "skip" : "fail";
  }
  /// Rows at a time that positions count.
  std::uint64_t PositionRows() const { return plan_.batched ? plan_.batch.size : 1; }
  /// Of a batch, or, on chains without Batch, of row `row` of what was read.
  BatchOrigin OriginOf(const Origin& origin, std::size_t row = 0) const;
  static std::vector<RecordRange> RangesOf(const Origin& origin,
                                           std::span<const std::uint64_t> numbers);
  /// What is handed out now.
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
  /// Takes the sums that nobody will settle. False where nothing of the batch is left.
  bool SettleByCpu(const Taken& taken, BatchBuffer* slot);
  /// A batch was found to end in a failure after it was read: nothing that was read behind it ever
  /// was.
  void FailBehind(Run& run, const BatchBuffer& slot);
  /// A batch of which nothing is left after it was read: as PassOver.
  void PassOverLate(const Run& run, const Origin& origin);
  /// `rows`, where it is not null: what the block is views of.
  ReadResult TakeBlock(RecordBlock* block, Origin* origin, const ReadLimits& limits,
                       Rows* rows = nullptr);
  /// A row is of a mapped file that was cut: it fails what is read of the run, or, where damage is
  /// skipped, is entered as damaged. False where it fails.
  bool LoseShrunk(const Rows& rows, std::uint32_t row);
  /// Of a delivery, before anybody has it: views of records that are lost become null, those from a
  /// failure on are left out.
  void LoseShrunk(const Rows& rows, Delivery::Records* delivery);
  ReadResult ReadRow(Instance* instance, BatchOrigin* origin, const ReadLimits& limits);
  ReadResult FetchRows(const ReadLimits& limits);
  void DropRows();
  /// False where there is no row, or this one was lost.
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
  std::size_t reading_ahead_ = 0;  ///< who did, and has not ended; with mutex_
  std::timed_mutex peek_mutex_;    ///< one thread at a time looks ahead; taken before mutex_
  mutable std::mutex mutex_;       ///< guards run_, the failure and what was looked at ahead
  /// Who takes and who looks ahead, what was looked at, whether it failed; with mutex_. Blocks of
  /// damaged records alone, which ReadNext passes over, do not show.
  ReadingTurn turn_;
  std::shared_ptr<Run> run_;
  /// Of run_, or of the first one to come. A run's is not changed.
  std::shared_ptr<RunStart> start_ = std::make_shared<RunStart>();
  std::optional<Aimed> aim_;                  ///< where Resume is to start
  std::optional<std::uint64_t> wanted_pass_;  ///< at which Resume starts the source
  bool settled_ = true;                       ///< as Aimed, of began_
  ChainPosition began_;                       ///< what was handed out before the run
  ChainPosition delivered_;                   ///< what was handed out: batch, run and mark alone
  std::string restored_;                      ///< how the run came to its start
  std::vector<std::uint64_t> passed_over_;    ///< damaged records of batches that had no other rows
  std::optional<ChainPosition> passed_;       ///< behind the last of these: batch and mark alone
  std::vector<std::uint64_t> passed_late_;    ///< as passed_over_, of batches that were settled
  std::size_t unsettled_ = 0;                 ///< batches of run_ that were read; with mutex_
  std::uint64_t generation_ = 0;              ///< number of run_, from 0
  std::mutex ending_mutex_;                   ///< one FailBehind at a time; taken before mutex_
  std::optional<std::uint64_t> failed_at_;    ///< the batch of the last of run_; with mutex_
  Status failure_;
  bool closed_ = false;
  bool given_up_ = false;      ///< it is closed and nobody takes from run_ any more
  std::stop_source planning_;  ///< of the index that is being made
  /// Since when, and when last, what its consumers hold was seen to be what everything waits for.
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

  bool shown_ = true;                       ///< to who looks from outside
  std::vector<StageStats> ended_stages_;    ///< of the runs before run_; with mutex_
  LiveList<ChainCounts>::Membership live_;  ///< with mutex_, but for Leave; goes before all else
};

}  // namespace ringfeed
