// One chain from its first read on: it starts runs, and hands out what they deliver.
//
// A user's threads call it through Reader, several at once. A lane's own thread calls it if another
// chain reads this one (a decorator, Share). mutex_ guards all state but that of the parts that say
// otherwise: a restart changes the run, the position and the failure in one step, so they have one
// mutex. Locks are taken in this order: that of the rows, or of the thread that looks ahead;
// mutex_; that of the order. What holds: no thread waits for a delivery under mutex_. A delivery
// stays with the run that made it, and its start tells whether that is the current run. After Pause
// and until Resume reads wait, and no run is at work.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "readers/chain/chain_counters.h"
#include "readers/chain/chain_order.h"
#include "readers/chain/live_chains.h"
#include "readers/chain/position_book.h"
#include "readers/chain/row_queue.h"
#include "readers/chain/taken.h"
#include "readers/chain/takers.h"
#include "readers/chain/unsettled_batch.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/run.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// The life of one chain from its first read on: holds the plan, starts runs, hands their
/// deliveries to consumers and keeps what must outlast a run (the failure, the position, the
/// counts). Thread safe.
class ReaderSession {
 public:
  /// `rewind_input`: of what a user's decorator reads. `indexed`: as ChainOrder.
  explicit ReaderSession(ExecutionPlan plan, RewindInput rewind_input = {},
                         std::shared_ptr<IndexedSource> indexed = nullptr);
  ~ReaderSession();

  const ExecutionPlan& plan() const { return plan_; }
  ChainOrder& order() { return order_; }

  ReadResult ReadNext(Instance* instance, const ReadLimits& limits = {}) {
    BatchOrigin origin;
    return ReadNext(instance, &origin, limits);
  }
  ReadResult ReadNext(Instance* instance, BatchOrigin* origin, const ReadLimits& limits = {});
  /// Leaves to the caller what the plan's left_fields say: copies, and checksums.
  ReadResult ReadNext(SuppliedBatch* batch, const ReadLimits& limits = {});
  /// `origin` may be null.
  ReadResult ReadBlock(RecordBlock* block, BatchOrigin* origin, const ReadLimits& limits);
  /// kRecord, even if a failure comes next; kEnd; kTimeout.
  ReadResult HasNext(Deadline deadline = kNoDeadline);
  /// As HasNext. With kRecord *pass is the next instance's, none if a failure comes next.
  ReadResult NextPass(std::optional<std::uint64_t>* pass, Deadline deadline = kNoDeadline);

  /// Says that threads read ahead of what they hand out from now on, until EndReading. A restart of
  /// the chain then starts its next pass, even if no thread has read yet. A chain on the same
  /// shared reader cannot start again meanwhile: the threads would hand out what they read before.
  void BeginReading();
  void EndReading();
  /// Whether some BeginReading was not ended.
  bool is_read_ahead() const;

  // Before the first read, of a chain with Batch; others ignore it.

  /// A caller may hold so many at a time; fewer are made if memory is short, but at least what it
  /// needs: all, unless it is one that gives the others back while it waits for more.
  void ReserveBatches(std::size_t batches) { ReserveBatches(batches, batches); }
  void ReserveBatches(std::size_t batches, std::size_t needed);
  /// Long fields of rows are not copied for readers that take SuppliedBatch.
  void LeaveFields(const LeftFieldRules& rules);
  /// Offers reads into a device's memory to all runs, beside LeaveFields: if the chain's records
  /// suit that, all of their fields stay in that memory.
  void ReadDirectly(std::shared_ptr<DirectReads> reads);

  /// The memory that the chain's runs read into, of which nothing need be populated yet.
  std::shared_ptr<Arena> arena() const;
  /// Why checksums are not left, in a few words; empty if they are. As of the current run.
  std::string WhySumsAreEarly() const;
  /// The rows of a whole batch, if the chain's run goes on in the middle of a pass; 0 if it does
  /// not, or if batches have no usual number of rows.
  std::int64_t RowsBefore() const;
  /// The most rows that a batch of this rank can have; 0 without Batch.
  std::int64_t WholeRows() const;
  /// The same, if all batches except the last ones of passes have so many; else 0.
  std::int64_t UsualRows() const { return plan_.looks_into_records() ? 0 : WholeRows(); }

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
  /// If a thread of ringfeed's waits here for what it was handed and others hold: how much of that
  /// was let go so far.
  std::optional<std::uint64_t> StarvedReader() const;

  /// Its position after what was handed out, or after that batch. Throws Error if its order does
  /// not come again.
  std::string Position(const BatchOrigin* after = nullptr);
  /// Its position before anything was handed out.
  std::string StartPosition();
  /// Waits until the end of the left-out part is known; false: not by the deadline.
  bool AwaitPosition(Deadline deadline);
  /// Whether the end of the left-out part is known now.
  bool KnowsPosition();
  /// Resume starts there, once: after that position, or after so many batches. Throws Error if the
  /// data or the order are others. Builds an index if one is needed and missing. An aim changes
  /// nothing in a run that goes on; before the first run it is taken at once.
  void AimAt(const std::string& position);
  void AimAt(std::uint64_t batch);
  /// The same after `batches` more than were handed out.
  void AimBehind(std::uint64_t batches);
  /// Throw as AimAt does, and set no aim.
  void CheckPosition(const std::string& position);
  void CheckSeek();
  /// Whether it has an aim that is not reached yet: that takes Pause and Resume. An aim before the
  /// first read is taken at once, though a read may begin right after it.
  bool has_aim() const;

  /// For tests: set before the first read.
  void set_run_options(const RunOptions& options) { run_options_ = options; }

 private:
  class Unsettled;
  /// Which part of the work on a batch is the caller's: none, or what the plan leaves to it.
  enum class Rest : std::uint8_t { kNone, kLeft };

  /// The run to read from; none after Close, or if the limits came first. Makes the first run.
  StartedRun CurrentRun(const ReadLimits& limits = {});
  /// Plans the order by index; false if Close came meanwhile. Throws Error.
  bool PlanToRead();
  std::shared_ptr<Run> MakeRun();
  /// The result of a read if CurrentRun has none.
  ReadResult ResultWithoutRun(const ReadLimits& limits);

  ReadResult TakeNext(const ReadLimits& limits, Taken* taken);
  /// Of Takers::Take or Look; none: the run is over.
  std::optional<ReadResult> ResultAtEnd(const StartedRun& run);
  /// *read: its run and its buffer, which the tensors keep.
  ReadResult ReadBatch(const ReadLimits& limits, Rest rest, SuppliedBatch* batch, Taken* read);
  /// The same with the origin. An unsettled batch gets it later.
  ReadResult FinishRead(const ReadLimits& limits, Rest rest, SuppliedBatch* batch);
  ReadResult TakeRecords(const ReadLimits& limits, Taken* taken);
  ReadResult ReadRow(Instance* instance, BatchOrigin* origin, const ReadLimits& limits);
  ReadResult FetchRows(const ReadLimits& limits);
  /// A row is of a mapped file that was cut. That fails the reads of the run, or, if damage is
  /// skipped, enters the row as damaged. False if it fails.
  bool LoseShrunk(const StartedRun& of, const Delivery::Records& delivery, std::size_t row);
  /// For a delivery that is not handed out yet: views of lost records become null, and it ends
  /// before a failure.
  void LoseAllShrunk(const StartedRun& of, Delivery::Records* delivery);
  /// Notes what is handed out now.
  void NoteDelivered(const PositionBook::Start& of, const BatchOrigin& last);

  /// HasNext; kRecord also once is_known().
  ReadResult LookAhead(Deadline deadline, const std::function<bool()>& is_known);
  /// Whether rows are left of those that are handed out one by one, and of which pass: else kEnd.
  ReadResult LookAtRows(Deadline deadline, std::optional<std::uint64_t>* pass);
  /// LookAhead at what follows these rows.
  ReadResult LookAfterRows(Deadline deadline, const std::function<bool()>& is_known);

  /// Notes a failure of a run; false if it is not the current one any more.
  bool Fail(const StartedRun& of, Status status);
  /// Whether damage that a run failed with may be a parser that fits no record.
  bool MayBeMistake(const StartedRun& of, const Status& status);
  /// The failure of a run of the same chain that skips damage, if that is such a mistake; else
  /// `damage`. Waits a few seconds at most.
  Status MistakeOr(const Status& damage);
  std::shared_ptr<UnsettledBatch> MakeUnsettled(const StartedRun& of, BatchBuffer* slot,
                                                std::shared_ptr<const void> owner);
  /// Checks the sums that nobody will settle. False if nothing of the batch is left.
  bool SettleByCpu(const StartedRun& of, BatchBuffer* slot);
  /// A batch was found to end in a failure after it was read: nothing after it counts as read.
  void FailAfter(const StartedRun& of, const BatchBuffer& slot);

  /// Under mutex_, with nothing at work: the current pass of a data set, this chain's or that of
  /// the chain which it reads; 0 if there is none.
  std::uint64_t SourcePass() const;
  /// How many of them a whole run goes through; one if it has no end.
  std::uint64_t SourcePassesOfRun() const;
  /// Starts that pass of it; a chain that is read is already there. Throws Error if it cannot.
  void RewindSource(std::uint64_t pass);

  /// KnowsPosition, under mutex_.
  bool Settle();
  /// Under mutex_: before the first run the source tells its pass.
  Beginning WithSourcePass(Beginning place) const;
  Beginning Here() const;
  void Aim(Beginning aim);
  void RefuseToGoBack() const;

  ExecutionPlan plan_;  ///< fixed once a run is made
  const std::shared_ptr<const FieldNames> names_;
  const RewindInput rewind_input_;
  ChainKeeps kept_;  ///< of all runs
  RunOptions run_options_;

  mutable std::mutex mutex_;
  std::condition_variable_any resumed_;
  bool paused_ = false;
  bool begun_ = false;             ///< as BeginReading said
  std::size_t reading_ahead_ = 0;  ///< calls of BeginReading that were not ended
  bool closed_ = false;
  std::shared_ptr<Run> run_;
  std::optional<Beginning> aim_;              ///< the start of the next run, for Resume
  std::optional<std::uint64_t> wanted_pass_;  ///< of a data set, at which Resume starts the source
  PositionBook book_;
  ChainCounters counters_;
  Takers takers_;
  ChainOrder order_;         ///< has a mutex of its own
  RowQueue rows_;            ///< the same; of chains without Batch
  std::mutex ending_mutex_;  ///< one FailAfter at a time; taken before mutex_
  bool shown_ = true;        ///< whether LiveChains may show it
  /// With mutex_, but for Leave; goes before all else.
  LiveList<ChainCounts>::Membership live_;
};

}  // namespace ringfeed
