#include "readers/chain/session.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/calls_end.h"
#include "base/live/watching.h"
#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/user_code.h"
#include "readers/engine/blocks/locate.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

Status Closed() { return Status(StatusCode::kCancelled, "the reader was closed"); }

std::shared_ptr<const FieldNames> NamesOf(const ExecutionPlan& plan) {
  std::vector<std::string> names;
  for (SlotSpec& slot : plan.Slots()) names.push_back(std::move(slot.name));
  return std::make_shared<const FieldNames>(std::move(names));
}

}  // namespace

ReaderSession::ReaderSession(ExecutionPlan plan, RewindInput rewind_input,
                             std::shared_ptr<IndexedSource> indexed)
    : plan_(std::move(plan)),
      names_(NamesOf(plan_)),
      rewind_input_(std::move(rewind_input)),
      book_(plan_.source.records != nullptr ? plan_.source.records->pass() : 0),
      counters_(plan_, *kept_.ledger),
      takers_(plan_, &mutex_, &book_, &counters_),
      order_(plan_, kept_.ledger.get(), std::move(indexed)),
      rows_(plan_) {}

ReaderSession::~ReaderSession() { Close(); }

std::shared_ptr<Arena> ReaderSession::arena() const {
  const OpenOptions& options = plan_.source.options;
  return options.arena ? options.arena->arena() : Arena::Default();
}

std::shared_ptr<Run> ReaderSession::MakeRun() {
  const bool by_index = book_.start()->by_index || plan_.needs_index();
  const bool decorates = plan_.source.instances != nullptr;
  book_.Complete(by_index, decorates ? SourcePass() : book_.start()->source_pass);
  const CallsEnd end_of_calls([this] { return order_.is_closed(); });
  try {
    auto run = std::make_shared<Run>(RunInput{.plan = plan_,
                                              .arena = arena(),
                                              .start = *book_.start(),
                                              .indexed = by_index ? order_.known_index() : nullptr,
                                              .rewind_input = rewind_input_,
                                              .chain = kept_,
                                              .options = run_options_});
    run->Start();
    kept_.read_before = true;
    return run;
  } catch (const std::bad_alloc&) {
    Refuse(StatusCode::kResourceExhausted,
           "no memory for the chain's own tables: lower the window or the batch size");
  } catch (const std::system_error& error) {
    Refuse(StatusCode::kResourceExhausted,
           std::string("the reader threads cannot start: ") + error.what() +
               "; lower OpenOptions::threads or raise the limit (ulimit -u)");
  }
}

StartedRun ReaderSession::CurrentRun(const ReadLimits& limits) {
  if (plan_.needs_index() && !PlanToRead()) return {};
  std::unique_lock lock(mutex_);
  const auto resumed = [this] { return !paused_; };
  if (limits.deadline == kNoDeadline) {
    resumed_.wait(lock, limits.stop, resumed);
  } else if (!resumed_.wait_until(lock, limits.stop, limits.deadline, resumed)) {
    return {};
  }
  if (closed_ || limits.stop.stop_requested()) return {};
  if (run_ == nullptr) {
    const bool watched = shown_ && IsWatched();
    counters_.NoteStart();
    const UserCodeLocked locked(this);
    run_ = MakeRun();
    if (watched && !live_) {
      live_ = LiveChains().Enter(FirstSource(plan_.source),
                                 [this](ChainCounts* counts) { return Count(counts); });
    }
  }
  return {run_, book_.start()};
}

bool ReaderSession::PlanToRead() {
  try {
    (void)order_.Index();
    return true;
  } catch (const Error& error) {
    // Close came meanwhile: reads then fail, and do not throw.
    if (!order_.is_closed() || error.status().code() != StatusCode::kCancelled) throw;
    return false;
  }
}

ReadResult ReaderSession::ResultWithoutRun(const ReadLimits& limits) {
  if (limits.stop.stop_requested()) return ReadResult::kFailed;
  if (!order_.is_closed()) return ReadResult::kTimeout;
  const std::lock_guard lock(mutex_);
  takers_.Fail(Closed());
  return ReadResult::kFailed;
}

void ReaderSession::Pause() {
  std::shared_ptr<Run> run;
  {
    std::unique_lock lock(mutex_);
    resumed_.wait(lock, [this] { return !paused_; });
    paused_ = true;
    run = run_;
  }
  if (run != nullptr) run->Stop();
}

void ReaderSession::Resume() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  resumed_.notify_all();  // they wait for mutex_
  if (closed_) return;
  // The aim is dropped even if the source refuses: a later restart asks for the beginning.
  std::optional<Beginning> aim = std::exchange(aim_, std::nullopt);
  const std::optional<std::uint64_t> pass = std::exchange(wanted_pass_, std::nullopt);
  takers_.ForgetSeen();
  book_.ForgetRead();
  const bool of_user = HasUserSource(plan_);
  const UserCodeLocked locked(this);
  try {
    if (of_user && pass && (run_ != nullptr || *pass != SourcePass())) RewindSource(*pass);
    if (!aim) {
      aim = Beginning();
      if (of_user) aim->start.source_pass = SourcePass();
    }
  } catch (const Error& error) {
    // What was read ahead is gone with the run: reads report the reason from now on.
    takers_.FailInstead(error.status());
    throw;
  }
  book_.Begin(*std::move(aim));
  takers_.BeginAgain();
  if (run_ == nullptr) return;
  // Nothing can fail between this and the run's end, so it counts once.
  if (live_) counters_.KeepStages(*run_);
  kept_.ledger->Add(run_->Totals());
  run_.reset();  // first: the next one takes over its quota
  counters_.NoteStart();
  run_ = MakeRun();
}

void ReaderSession::Close() {
  order_.Close();  // first: what a start waits for ends
  std::shared_ptr<Run> run;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    run = run_;
  }
  if (run != nullptr) run->Stop();
  {
    const auto rows_lock = rows_.Lock(kNoDeadline);  // threads that waited with it were woken
    rows_.Drop();
  }
  LiveList<ChainCounts>::Membership live;
  {
    const std::lock_guard lock(mutex_);
    takers_.GiveUp();
    live = std::move(live_);
  }
  kept_.mappings->Clear();
  live.Leave();
  // They are not read any more: a writer on the other side must know.
  for (const StreamInput& input : plan_.source.streams) input.stream->Close();
}

void ReaderSession::CheckOpen() const {
  const std::lock_guard lock(mutex_);
  if (closed_) throw Error(Closed());
}

Status ReaderSession::status() const {
  const std::lock_guard lock(mutex_);
  return takers_.failure();
}

bool ReaderSession::IsWithin() const {
  const std::lock_guard lock(mutex_);
  return run_ != nullptr && WorkerStop::IsWorkerOf(run_.get());
}

std::optional<std::uint64_t> ReaderSession::StarvedReader() const {
  const std::lock_guard lock(mutex_);
  if (run_ == nullptr || !takers_.AllAsk()) return std::nullopt;
  return run_->holders().given_back();
}

PipelineStats ReaderSession::Stats() const {
  PipelineStats stats;
  std::shared_ptr<Run> run;
  bool failed = false;
  {
    // Except for a moment of Resume, its totals are the run's or the ledger's.
    const std::lock_guard lock(mutex_);
    run = run_;
    counters_.FillTotals(run.get(), &stats);
    stats.restored = book_.began().how;
    failed = takers_.failed();
  }
  if (plan_.parser != nullptr) plan_.parser->AddTo(&stats);
  stats.given_up_reads = GivenUpReads(plan_.source);
  AddRemote(plan_.source, &stats.remote);
  if (run != nullptr) counters_.Explain(*run, failed, &stats);
  return stats;
}

bool ReaderSession::Count(ChainCounts* counts) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || run_ == nullptr) return false;
  counters_.Count(*run_, counts);
  return true;
}

void ReaderSession::ReserveBatches(std::size_t batches, std::size_t needed) {
  const std::lock_guard lock(mutex_);
  if (!plan_.batched) return;
  if (run_ != nullptr || batches > BatchSink::kMaxSlots - 2) {
    Refuse(run_ != nullptr
               ? "whoever holds several batches at a time must say so before the first read"
               : std::to_string(batches) + " batches are to be held at a time; there can be " +
                     std::to_string(BatchSink::kMaxSlots - 2));
  }
  plan_.held_batches = batches;
  plan_.needed_batches = needed;
}

void ReaderSession::LeaveFields(const LeftFieldRules& rules) {
  const std::lock_guard lock(mutex_);
  if (!plan_.batched) return;
  if (run_ != nullptr) Refuse("who copies fields itself must say so before the first read");
  plan_.left_fields = rules;
  plan_.source.options.io.may_map = plan_.source.options.io.may_map && rules.may_map;
}

void ReaderSession::BeginReading() {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  ++reading_ahead_;
}

void ReaderSession::EndReading() {
  const std::lock_guard lock(mutex_);
  // A reader that failed to start, as for want of device memory, has read nothing.
  if (--reading_ahead_ == 0 && run_ == nullptr) begun_ = false;
}

bool ReaderSession::is_read_ahead() const {
  const std::lock_guard lock(mutex_);
  return reading_ahead_ > 0;
}

void ReaderSession::ReadDirectly(std::shared_ptr<DirectReads> reads) {
  const std::lock_guard lock(mutex_);
  if (plan_.batched && run_ == nullptr) plan_.direct = std::move(reads);
}

std::string ReaderSession::WhySumsAreEarly() const {
  const std::lock_guard lock(mutex_);
  return run_ != nullptr ? run_->why_sums_are_early() : plan_.WhySumsAreEarly();
}

std::int64_t ReaderSession::RowsBefore() const {
  const std::lock_guard lock(mutex_);
  // A pass may have fewer rows than a batch: if nothing of it came before, none was whole.
  return book_.start()->mark.place == 0 ? 0 : UsualRows();
}

std::int64_t ReaderSession::WholeRows() const {
  if (!plan_.batched) return 0;
  return static_cast<std::int64_t>(plan_.RowsOfRank());
}

ReadResult ReaderSession::ReadNext(Instance* instance, BatchOrigin* origin,
                                   const ReadLimits& limits) {
  instance->clear();
  if (!plan_.batched) return ReadRow(instance, origin, limits);
  SuppliedBatch batch;
  const ReadResult result = FinishRead(limits, Rest::kNone, &batch);
  if (result != ReadResult::kRecord) return result;
  *instance = std::move(batch.tensors);
  *origin = std::move(batch.origin);
  return result;
}

ReadResult ReaderSession::ReadNext(SuppliedBatch* batch, const ReadLimits& limits) {
  *batch = {};
  if (!plan_.batched) return ReadRow(&batch->tensors, &batch->origin, limits);
  return FinishRead(limits, Rest::kLeft, batch);
}

ReadResult ReaderSession::FinishRead(const ReadLimits& limits, Rest rest, SuppliedBatch* batch) {
  Taken read;
  const ReadResult result = ReadBatch(limits, rest, batch, &read);
  if (result != ReadResult::kRecord || batch->unsettled != nullptr) return result;
  std::vector<std::uint64_t> passed;
  {
    const std::lock_guard lock(mutex_);
    passed = book_.TakePassedDamage();
  }
  batch->origin = OriginOf(plan_, read.of, *read.delivery.batch, passed);
  NoteDelivered(read.of.start, batch->origin);
  return result;
}

void ReaderSession::NoteDelivered(const PositionBook::Start& of, const BatchOrigin& last) {
  const std::lock_guard lock(mutex_);
  book_.NoteDelivered(of, last);
}

ReadResult ReaderSession::ReadBatch(const ReadLimits& limits, Rest rest, SuppliedBatch* batch,
                                    Taken* read) {
  while (true) {
    Taken taken;
    const ReadResult result = TakeNext(limits, &taken);
    if (result != ReadResult::kRecord) return result;
    BatchBuffer* const slot = taken.delivery.batch;
    const StartedRun run = std::move(taken.of);
    const auto owner = run.run->Lease(std::move(taken.delivery));
    const bool leaves_sums = rest == Rest::kLeft && run.run->why_sums_are_early().empty();
    if (!leaves_sums && !slot->pending_sums.empty() && !SettleByCpu(run, slot)) continue;
    const Status after = slot->status;
    const bool empty = slot->rows == 0;
    if (slot->failed_payload_pass) FailAfter(run, *slot);
    if (!after.ok()) {
      const bool failed = Fail(run, after);
      // The rows before the failure, if any, are good and go first.
      if (empty && !failed) continue;
      if (empty) return ReadResult::kFailed;
    }
    if (rest == Rest::kLeft) {
      batch->pending = slot->pending_copies;
    } else if (const Status copied = run.run->CopyPending(slot); !copied.ok()) {
      if (!Fail(run, copied)) continue;
      return ReadResult::kFailed;
    }
    batch->tensors = run.run->MakeInstance(*slot, owner);
    batch->tensors.set_names(names_);
    counters_.NoteFirst();
    if (leaves_sums) {
      batch->unsettled = MakeUnsettled(run, slot, owner);
    } else {
      counters_.NoteDelivered(*slot);
    }
    read->of = run;
    read->delivery.batch = slot;
    return ReadResult::kRecord;
  }
}

ReadResult ReaderSession::TakeRecords(const ReadLimits& limits, Taken* taken) {
  while (true) {
    const ReadResult result = TakeNext(limits, taken);
    if (result != ReadResult::kRecord) return result;
    LoseAllShrunk(taken->of, taken->delivery.records.get());
    if (!taken->delivery.records->records.empty()) break;
    taken->of.run->Lease(std::move(taken->delivery));
  }
  counters_.NoteFirst();
  counters_.NoteDelivered(0);
  return ReadResult::kRecord;
}

ReadResult ReaderSession::ReadBlock(RecordBlock* block, BatchOrigin* origin,
                                    const ReadLimits& limits) {
  *block = RecordBlock();
  Taken taken;
  const ReadResult result = TakeRecords(limits, &taken);
  if (result != ReadResult::kRecord) return result;
  const Delivery::Records& records = *taken.delivery.records;
  const std::size_t rows = records.records.size();
  const BatchOrigin last = OriginOfRow(plan_, taken.of, records, rows - 1, rows);
  block->records_ = records.records;
  block->hold_ = taken.of.run->Lease(std::move(taken.delivery));
  NoteDelivered(taken.of.start, last);
  if (origin != nullptr) *origin = last;
  return result;
}

bool ReaderSession::LoseShrunk(const StartedRun& of, const Delivery::Records& delivery,
                               std::size_t row) {
  const RecordSpan& record = delivery.records[row];
  const RowRef ref = delivery.RefOf(static_cast<std::uint32_t>(row));
  const Status why = ref.block->WhyDamagedAt(ref.row).WithPlace(ref.block->PlaceOf(ref.row));
  if (!IsSkippable(why, plan_.source.options.on_damage)) {
    (void)Fail(of, why);
    return false;
  }
  kept_.ledger->NoteSkipped(record, why);
  return true;
}

void ReaderSession::LoseAllShrunk(const StartedRun& of, Delivery::Records* delivery) {
  enum class Seen : std::uint8_t { kNot, kWhole, kShrunk };
  std::vector<Seen> seen;  // by Block::index: a block may have many files
  for (std::uint32_t row = 0; row < delivery->records.size(); ++row) {
    const Block* const block = delivery->RefOf(row).block;
    if (block == nullptr) return;  // of damaged records alone
    if (block->index >= seen.size()) seen.resize(block->index + 1);
    Seen& of_block = seen[block->index];
    if (of_block == Seen::kNot) of_block = block->shrunk() ? Seen::kShrunk : Seen::kWhole;
    if (of_block == Seen::kWhole || !delivery->ShrunkAt(row)) continue;
    if (!LoseShrunk(of, *delivery, row)) {
      delivery->records = delivery->records.first(row);
      return;
    }
    if (delivery->gathered.empty()) {
      delivery->gathered.assign(delivery->records.begin(), delivery->records.end());
      delivery->records = delivery->gathered;
    }
    delivery->gathered[row] = RecordSpan();
  }
}

ReadResult ReaderSession::ReadRow(Instance* instance, BatchOrigin* origin,
                                  const ReadLimits& limits) {
  const auto lock = rows_.Lock(limits.deadline);
  if (!lock.owns_lock()) return ReadResult::kTimeout;
  {
    const std::lock_guard state_lock(mutex_);
    if (!book_.IsOf(rows_.start()) || closed_) rows_.Drop();
  }
  RowQueue::Row row = rows_.Take(instance, origin);
  while (row != RowQueue::Row::kTaken) {
    if (row == RowQueue::Row::kNone) {
      const ReadResult result = FetchRows(limits);
      if (result != ReadResult::kRecord) return result;
    } else if (!LoseShrunk(rows_.run(), rows_.records(), rows_.lost())) {
      rows_.Drop();
    }
    row = rows_.Take(instance, origin);
  }
  instance->set_names(names_);
  NoteDelivered(rows_.start(), *origin);
  return ReadResult::kRecord;
}

ReadResult ReaderSession::FetchRows(const ReadLimits& limits) {
  rows_.Drop();
  Taken taken;
  if (plan_.parser != nullptr) {
    SuppliedBatch batch;
    const ReadResult result = ReadBatch(limits, Rest::kNone, &batch, &taken);
    if (result != ReadResult::kRecord) return result;
    rows_.Put(std::move(taken.of), taken.delivery.batch, std::move(batch.tensors));
    return result;
  }
  const ReadResult result = TakeRecords(limits, &taken);
  if (result != ReadResult::kRecord) return result;
  const Delivery::Records* const records = taken.delivery.records.get();
  auto hold = taken.of.run->Lease(std::move(taken.delivery));
  rows_.Put(std::move(taken.of), records, std::move(hold));
  return result;
}

ReadResult ReaderSession::TakeNext(const ReadLimits& limits, Taken* taken) {
  while (true) {
    const StartedRun run = CurrentRun(limits);
    if (run.run == nullptr) return ResultWithoutRun(limits);
    std::optional<ReadResult> result = takers_.Take(run, limits, taken);
    if (result == ReadResult::kEnd) result = ResultAtEnd(run);
    if (result) return *result;
  }
}

std::optional<ReadResult> ReaderSession::ResultAtEnd(const StartedRun& run) {
  counters_.NoteEnd();
  {
    const std::lock_guard lock(mutex_);
    book_.CountPassedOver(run.start);
  }
  const Status status = run.run->end_status();
  if (!status.ok()) {
    return Fail(run, status) ? std::optional(ReadResult::kFailed) : std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  if (book_.IsOf(run.start) && !closed_) takers_.Recover();
  return ReadResult::kEnd;
}

ReadResult ReaderSession::HasNext(Deadline deadline) {
  return LookAhead(deadline, [] { return false; });
}

ReadResult ReaderSession::LookAhead(Deadline deadline, const std::function<bool()>& is_known) {
  std::optional<std::uint64_t> unused;
  const ReadResult rows = LookAtRows(deadline, &unused);
  if (rows != ReadResult::kEnd) return rows;
  const ReadResult result = LookAfterRows(deadline, is_known);
  // Another thread that took something meanwhile hands it out row by row.
  const bool may_be_rows = result == ReadResult::kEnd && !plan_.batched;
  return may_be_rows ? LookAtRows(deadline, &unused) : result;
}

ReadResult ReaderSession::LookAtRows(Deadline deadline, std::optional<std::uint64_t>* pass) {
  const auto rows = rows_.Lock(deadline);
  if (!rows.owns_lock()) return ReadResult::kTimeout;
  const std::lock_guard state_lock(mutex_);
  if (rows_.empty() || !book_.IsOf(rows_.start())) return ReadResult::kEnd;
  *pass = rows_.pass();
  return ReadResult::kRecord;
}

ReadResult ReaderSession::LookAfterRows(Deadline deadline, const std::function<bool()>& is_known) {
  while (true) {
    const StartedRun run = CurrentRun({.deadline = deadline});
    if (run.run == nullptr) {
      const std::lock_guard lock(mutex_);
      return closed_ ? ReadResult::kRecord : ReadResult::kTimeout;
    }
    std::optional<ReadResult> result = takers_.Look(run, deadline, is_known);
    if (result == ReadResult::kEnd) result = ResultAtEnd(run);
    if (result == ReadResult::kFailed) return ReadResult::kRecord;
    if (result) return *result;
  }
}

ReadResult ReaderSession::NextPass(std::optional<std::uint64_t>* pass, Deadline deadline) {
  pass->reset();
  const ReadResult result = HasNext(deadline);
  if (result != ReadResult::kRecord) return result;
  const ReadResult rows = LookAtRows(deadline, pass);
  if (rows != ReadResult::kEnd) return rows;
  const std::lock_guard lock(mutex_);
  const Taken* const shown = takers_.Shown();
  if (shown == nullptr) return result;  // a failure, or another thread took it
  const Delivery& next = shown->delivery;
  *pass = next.batch != nullptr ? next.batch->pass : next.records->pass;
  return result;
}

bool ReaderSession::MayBeMistake(const StartedRun& of, const Status& status) {
  const SourceNode& source = plan_.source;
  const bool comes_again = source.streams.empty() && !source.own_sources &&
                           (!source.names.empty() || source.mix != nullptr);
  if (status.code() != StatusCode::kDamaged || source.options.on_damage != OnDamage::kFail ||
      plan_.record_parser == nullptr || plan_.looks_into_records() || !comes_again) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  const RunStart& start = *book_.start();
  const bool from_beginning = start.batch == 0 && start.mark == PlanPosition{} && start.mix.empty();
  return book_.IsOf(of.start) && from_beginning && !takers_.failed() && !closed_ &&
         !counters_.has_first();
}

Status ReaderSession::MistakeOr(const Status& damage) {
  constexpr std::chrono::seconds kLongest{3};
  try {
    ExecutionPlan plan = plan_;
    plan.parser = plan.record_parser;
    plan.direct = nullptr;
    plan.batch.empty_batches = false;
    OpenOptions& options = plan.source.options;
    options.on_damage = OnDamage::kSkip;
    // The chain's own arena may be full; an unused other one costs nothing.
    const auto arena = options.arena ? options.arena->arena() : Arena::Default();
    options.arena = std::make_shared<PinnedArena>(arena->bytes());
    ReaderSession skipping(std::move(plan), {}, order_.known_index());
    skipping.shown_ = false;
    Instance instance;
    (void)skipping.ReadNext(&instance, {.deadline = DeadlineAfter(kLongest)});
    const Status status = skipping.status();
    return Refusals::IsMistake(status) ? status : damage;
  } catch (const std::exception&) {
    return damage;
  }
}

bool ReaderSession::Fail(const StartedRun& of, Status status) {
  // If a parser refuses one record, that is damage. If it refuses the first hundred of a run, the
  // parser is the mistake.
  if (MayBeMistake(of, status)) status = MistakeOr(status);
  const std::lock_guard lock(mutex_);
  if (!book_.IsOf(of.start)) return false;
  takers_.Fail(std::move(status));
  return true;
}

std::uint64_t ReaderSession::SourcePass() const {
  if (plan_.source.records != nullptr) {
    const UserCodeLocked locked(this);
    return plan_.source.records->pass();
  }
  const std::shared_ptr<ReaderSession> input = InputSessionOf(plan_);
  if (input == nullptr) return 0;
  const std::lock_guard lock(input->mutex_);
  return input->run_ != nullptr ? input->book_.start()->source_pass : input->SourcePass();
}

std::uint64_t ReaderSession::SourcePassesOfRun() const {
  const std::shared_ptr<ReaderSession> input = InputSessionOf(plan_);
  return std::max<std::uint64_t>(1, plan_.passes) *
         (input == nullptr ? 1 : input->SourcePassesOfRun());
}

void ReaderSession::AimSource() {
  std::optional<std::uint64_t> pass;
  {
    const std::lock_guard lock(mutex_);
    if (aim_) {
      wanted_pass_ = aim_->start.source_pass;
    } else if (!wanted_pass_ && (run_ != nullptr || begun_)) {
      // However far it has read ahead.
      wanted_pass_ = book_.start()->source_pass + SourcePassesOfRun();
    }
    pass = wanted_pass_;
  }
  const std::shared_ptr<ReaderSession> input = pass ? InputSessionOf(plan_) : nullptr;
  if (input == nullptr) return;
  const std::lock_guard lock(input->mutex_);
  input->wanted_pass_ = pass;
}

void ReaderSession::RewindSource(std::uint64_t pass) {
  const SourceNode& source = plan_.source;
  bool began = false;
  CallUserOrThrow("the reader's ReInit", [&] {
    began = source.instances ? source.instances->ReInit() : source.records->StartPass(pass);
  });
  if (began) return;
  Refuse(StatusCode::kUnsupported, "the reader cannot start again: ReInit said no");
}

Beginning ReaderSession::WithSourcePass(Beginning place) const {
  if (run_ == nullptr && HasUserSource(plan_)) place.start.source_pass = SourcePass();
  return place;
}

Beginning ReaderSession::Here() const {
  const std::lock_guard lock(mutex_);
  return WithSourcePass({.start = *book_.start(), .delivered = book_.delivered()});
}

std::string ReaderSession::Position(const BatchOrigin* after) {
  order_.RefuseWithoutPosition();
  if (after == nullptr) (void)AwaitPosition(kNoDeadline);
  const Beginning here = Here();
  if (after == nullptr) return order_.TextOf(here.delivered, here.start);
  return order_.TextOf(PlaceBehind(*after), after->start != nullptr ? *after->start : here.start);
}

std::string ReaderSession::StartPosition() {
  order_.RefuseWithoutPosition();
  (void)AwaitPosition(kNoDeadline);
  Beginning began;
  {
    const std::lock_guard lock(mutex_);
    began = WithSourcePass(book_.began());
  }
  return order_.TextOf(std::move(began.delivered), began.start);
}

bool ReaderSession::KnowsPosition() {
  const std::lock_guard lock(mutex_);
  return Settle();
}

bool ReaderSession::Settle() {
  return closed_ || book_.Settle(run_ != nullptr ? run_->left_out() : std::nullopt);
}

bool ReaderSession::AwaitPosition(Deadline deadline) {
  // The plan learns the position before the next delivery, which may never come, and then wakes
  // nobody. So this looks again and again: only a thread that aimed the chain asks, once.
  constexpr std::chrono::milliseconds kBetweenLooks{10};
  try {
    while (!KnowsPosition()) {
      const Deadline look = std::min(deadline, DeadlineAfter(kBetweenLooks));
      if (LookAhead(look, [this] { return Settle(); }) != ReadResult::kTimeout) break;
      if (NativeQueuePolicy::Expired(deadline)) return KnowsPosition();
    }
  } catch (const Error&) {
    return true;  // the next read says so
  }
  (void)KnowsPosition();
  return true;
}

void ReaderSession::RefuseToGoBack() const {
  if (plan_.rewindable()) return;
  const std::lock_guard lock(mutex_);
  if (run_ == nullptr) return;
  Refuse(StatusCode::kUnsupported, "a stream that is being read cannot be read from elsewhere");
}

void ReaderSession::Aim(Beginning aim) {
  const std::lock_guard lock(mutex_);
  if (run_ == nullptr && (!HasUserSource(plan_) || aim.start.source_pass == SourcePass())) {
    book_.Begin(std::move(aim));
  } else {
    aim_ = std::move(aim);
  }
}

void ReaderSession::AimAt(const std::string& position) {
  ChainPosition understood = order_.Understood(position);
  RefuseToGoBack();
  Aim(order_.BeginningAt(std::move(understood)));
}

void ReaderSession::AimAt(std::uint64_t batch) {
  order_.RefuseWithoutPosition();
  RefuseToGoBack();
  ChainPosition position;
  position.batch = batch;
  position.source_pass = Here().start.source_pass;
  Aim(order_.BeginningAtCount(std::move(position)));
}

void ReaderSession::AimBehind(std::uint64_t batches) {
  order_.RefuseWithoutPosition();
  RefuseToGoBack();
  Beginning here;
  {
    const std::lock_guard lock(mutex_);
    here = WithSourcePass({.start = *book_.start(), .delivered = book_.delivered()});
    here.delivered.batch += book_.pieces();
  }
  Aim(order_.BeginningAtCount(order_.Further(std::move(here.delivered), here.start, batches)));
}

void ReaderSession::CheckPosition(const std::string& position) {
  (void)order_.Understood(position);
  RefuseToGoBack();
}

void ReaderSession::CheckSeek() {
  order_.RefuseWithoutPosition();
  RefuseToGoBack();
  (void)order_.Index();
}

bool ReaderSession::has_aim() const {
  const std::lock_guard lock(mutex_);
  return aim_.has_value();
}

}  // namespace ringfeed
