#include "readers/chain/session.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/little_endian.h"
#include "base/live/watching.h"
#include "base/refuse.h"
#include "queue/lock_until.h"
#include "readers/chain/advice.h"
#include "readers/chain/user_code.h"
#include "readers/engine/blocks/locate.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/worker_stop.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

namespace {

Status Closed() { return Status(StatusCode::kCancelled, "the reader was closed"); }

// Makes a level of LoD that of the row alone: its ends count from the row's start.
void CountFrom(std::int64_t start, std::span<std::byte> ends) {
  for (std::size_t at = 0; at < ends.size(); at += sizeof(std::int64_t)) {
    StoreLe(ends.data() + at, LoadLe<std::int64_t>(ends.data() + at) - start);
  }
}

std::shared_ptr<const FieldNames> NamesOf(const ExecutionPlan& plan) {
  std::vector<std::string> names;
  for (SlotSpec& slot : plan.Slots()) names.push_back(std::move(slot.name));
  return std::make_shared<const FieldNames>(std::move(names));
}

Tensor CopyOf(const RecordSpan& record) {
  const std::span<const std::byte> bytes = record.bytes();
  return MakeTensor(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

}  // namespace

ReaderSession::ReaderSession(ExecutionPlan plan, RewindInput rewind_input)
    : plan_(std::move(plan)), names_(NamesOf(plan_)), rewind_input_(std::move(rewind_input)) {
  if (plan_.source.records != nullptr) start_->source_pass = plan_.source.records->pass();
}

ReaderSession::~ReaderSession() { Close(); }

std::int64_t ReaderSession::NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::shared_ptr<Run> ReaderSession::MakeRun() {
  const OpenOptions& options = plan_.source.options;
  auto arena = options.arena ? options.arena->arena() : Arena::Default();
  if (plan_.needs_index()) start_->by_index = true;
  if (run_ == nullptr && plan_.source.instances != nullptr) start_->source_pass = SourcePass();
  try {
    auto run = std::make_shared<Run>(plan_, rewind_input_, std::move(arena), hooks_, *start_,
                                     start_->by_index ? indexed_ : nullptr, kept_);
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

bool ReaderSession::IsWithin() const {
  const std::lock_guard lock(mutex_);
  return run_ != nullptr && WorkerStop::IsWorkerOf(run_.get());
}

std::shared_ptr<Run> ReaderSession::CurrentRun(const ReadLimits& limits) {
  if (plan_.needs_index() && !PlanToRead()) return nullptr;
  std::unique_lock lock(mutex_);
  const auto resumed = [this] { return !paused_; };
  if (limits.deadline == kNoDeadline) {
    resumed_.wait(lock, limits.stop, resumed);
  } else if (!resumed_.wait_until(lock, limits.stop, limits.deadline, resumed)) {
    return nullptr;
  }
  if (closed_ || limits.stop.stop_requested()) return nullptr;
  if (run_ == nullptr) {
    const bool watched = shown_ && IsWatched();
    start_ns_.store(NowNs(), std::memory_order_relaxed);
    const UserCodeLocked locked(this);
    run_ = MakeRun();
    if (watched && !live_) {
      live_ = LiveChains().Enter(FirstSource(plan_.source),
                                 [this](ChainCounts* counts) { return Count(counts); });
    }
  }
  return run_;
}

bool ReaderSession::PlanToRead() {
  try {
    std::string unused;
    (void)Planned(&unused);
    return true;
  } catch (const Error& error) {
    // Close came meanwhile: reads then fail, and do not throw.
    const std::lock_guard lock(mutex_);
    if (!closed_ || error.status().code() != StatusCode::kCancelled) throw;
    return false;
  }
}

ReadResult ReaderSession::ResultWithoutRun(const ReadLimits& limits) {
  if (limits.stop.stop_requested()) return ReadResult::kFailed;
  const std::lock_guard lock(mutex_);
  if (!closed_) return ReadResult::kTimeout;
  if (!turn_.failed()) failure_ = Closed();
  turn_.Fail();
  return ReadResult::kFailed;
}

bool ReaderSession::MayBeMistake(const Run& run, const Status& status) {
  const SourceNode& source = plan_.source;
  const bool comes_again =
      source.streams.empty() && (!source.names.empty() || source.mix != nullptr);
  if (status.code() != StatusCode::kDamaged || source.options.on_damage != OnDamage::kFail ||
      plan_.record_parser == nullptr || !plan_.content.empty() || !comes_again) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  const bool from_beginning =
      start_->batch == 0 && start_->mark == PlanPosition{} && start_->mix.empty();
  return run_.get() == &run && from_beginning && !turn_.failed() && !closed_ &&
         first_ns_.load(std::memory_order_relaxed) == 0;
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
    ReaderSession skipping(std::move(plan));
    skipping.shown_ = false;
    {
      const std::lock_guard lock(planned_mutex_);
      skipping.indexed_ = indexed_;
    }
    Instance instance;
    (void)skipping.ReadNext(&instance, {.deadline = DeadlineAfter(kLongest)});
    const Status status = skipping.status();
    return Refusals::IsMistake(status) ? status : damage;
  } catch (const std::exception&) {
    return damage;
  }
}

ReaderSession::Wait ReaderSession::Fail(const Run& run, Status status) {
  // If a parser refuses one record, that is damage. If it refuses the first hundred of a run, the
  // parser is the mistake.
  if (MayBeMistake(run, status)) status = MistakeOr(status);
  const std::lock_guard lock(mutex_);
  if (run_.get() != &run) return Wait::kStale;
  if (!turn_.failed()) failure_ = std::move(status);
  turn_.Fail();
  return Wait::kFailed;
}

void ReaderSession::ReserveBatches(std::size_t batches) {
  const std::lock_guard lock(mutex_);
  if (!plan_.batched) return;
  if (run_ != nullptr || batches > BatchSink::kMaxSlots - 2) {
    Refuse(run_ != nullptr
               ? "whoever holds several batches at a time must say so before the first read"
               : std::to_string(batches) + " batches are to be held at a time; there can be " +
                     std::to_string(BatchSink::kMaxSlots - 2));
  }
  plan_.held_batches = batches;
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

void ReaderSession::NoteFirst() {
  std::int64_t unset = 0;
  first_ns_.compare_exchange_strong(unset, NowNs(), std::memory_order_relaxed);
}

ReadResult ReaderSession::ReadNext(Instance* instance, BatchOrigin* origin,
                                   const ReadLimits& limits, std::span<const PendingCopy>* pending,
                                   std::shared_ptr<UnsettledBatch>* unsettled) {
  if (!plan_.batched) return ReadRow(instance, origin, limits);
  Origin read;
  const ReadResult result = ReadBatch(instance, &read, limits, pending, unsettled);
  if (result != ReadResult::kRecord) return result;
  if (unsettled != nullptr && *unsettled != nullptr) return result;
  {
    const std::lock_guard lock(mutex_);
    read.damaged.insert(read.damaged.begin(), passed_over_.begin(), passed_over_.end());
    passed_over_.clear();
  }
  *origin = OriginOf(read);
  NoteDelivered(read, *origin);
  return result;
}

ReaderSession::Origin ReaderSession::OriginOf(const Taken& taken, const BatchBuffer& slot) {
  Origin origin = {taken.generation, taken.start,          slot.pass, slot.span,
                   slot.row_numbers, slot.damaged_numbers, {},        taken.run->indexed()};
  for (const RowFailure& failure : slot.failures) origin.failed.push_back(failure.row);
  return origin;
}

ReadResult ReaderSession::ReadBatch(Instance* instance, Origin* origin, const ReadLimits& limits,
                                    std::span<const PendingCopy>* pending,
                                    std::shared_ptr<UnsettledBatch>* unsettled) {
  instance->clear();
  if (unsettled != nullptr) unsettled->reset();
  while (true) {
    Taken taken;
    const ReadResult result = TakeNext(&taken, limits);
    if (result != ReadResult::kRecord) return result;
    BatchBuffer* const slot = taken.delivery.batch;
    Taken of{taken.run, {}, taken.generation, taken.start};
    const auto owner = taken.run->Lease(std::move(taken.delivery));
    const bool leaves_sums = unsettled != nullptr && of.run->why_sums_are_early().empty();
    if (!leaves_sums && !slot->pending_sums.empty() && !SettleByCpu(of, slot)) continue;
    const Status after = slot->status;
    const bool empty = slot->rows == 0;
    if (slot->failed_payload_pass) FailBehind(*of.run, *slot);
    if (!after.ok()) {
      const Wait failed = Fail(*of.run, after);
      // The rows before the failure, if any, are good and go first.
      if (empty && failed == Wait::kStale) continue;
      if (empty) return ReadResult::kFailed;
    }
    if (pending == nullptr) {
      const Status copied = of.run->CopyPending(slot);
      if (!copied.ok()) {
        if (Fail(*of.run, copied) == Wait::kStale) continue;
        return ReadResult::kFailed;
      }
    }
    if (pending != nullptr) *pending = slot->pending_copies;
    *instance = of.run->MakeInstance(*slot, owner);
    instance->set_names(names_);
    if (leaves_sums) {
      *unsettled = MakeUnsettled(std::move(of), slot, owner);
      NoteFirst();
      return ReadResult::kRecord;
    }
    *origin = OriginOf(of, *slot);
    NoteFirst();
    batches_.fetch_add(1, std::memory_order_relaxed);
    batch_bytes_.fetch_add(slot->payload_bytes.load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
    return ReadResult::kRecord;
  }
}

ReadResult ReaderSession::ReadBlock(RecordBlock* block, BatchOrigin* origin,
                                    const ReadLimits& limits) {
  Origin read;
  const ReadResult result = TakeBlock(block, &read, limits);
  if (result != ReadResult::kRecord) return result;
  BatchOrigin last = OriginOf(read, block->size() - 1);
  NoteDelivered(read, last);
  if (origin == nullptr) return result;
  *origin = std::move(last);
  origin->records = RangesOf(read, read.numbers);
  return result;
}

bool ReaderSession::LoseShrunk(const Rows& rows, std::uint32_t row) {
  const RecordSpan& record = rows.delivery->records[row];
  const RowRef ref = rows.delivery->RefOf(row);
  const Status why = ref.block->WhyDamagedAt(ref.row).WithPlace(ref.block->PlaceOf(ref.row));
  if (!IsSkippable(why, plan_.source.options.on_damage)) {
    (void)Fail(*rows.run, why);
    return false;
  }
  kept_.ledger->NoteSkipped(record, why);
  return true;
}

void ReaderSession::LoseShrunk(const Rows& rows, Delivery::Records* delivery) {
  enum class Seen : std::uint8_t { kNot, kWhole, kShrunk };
  std::vector<Seen> seen;  // by Block::index: a block may have many files
  for (std::uint32_t row = 0; row < delivery->records.size(); ++row) {
    const Block* const block = delivery->RefOf(row).block;
    if (block == nullptr) return;  // of damaged records alone
    if (block->index >= seen.size()) seen.resize(block->index + 1);
    Seen& of_block = seen[block->index];
    if (of_block == Seen::kNot) of_block = block->shrunk() ? Seen::kShrunk : Seen::kWhole;
    if (of_block == Seen::kWhole || !delivery->ShrunkAt(row)) continue;
    if (!LoseShrunk(rows, row)) {
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

ReadResult ReaderSession::TakeBlock(RecordBlock* block, Origin* origin, const ReadLimits& limits,
                                    Rows* rows) {
  *block = RecordBlock();
  Taken taken;
  do {
    const ReadResult result = TakeNext(&taken, limits);
    if (result != ReadResult::kRecord) return result;
    LoseShrunk({taken.run, taken.delivery.records.get()}, taken.delivery.records.get());
    if (taken.delivery.records->records.empty()) taken.run->Lease(std::move(taken.delivery));
  } while (taken.delivery.records == nullptr);
  const Delivery::Records& records = *taken.delivery.records;
  if (rows != nullptr) *rows = {taken.run, &records};
  block->records_ = records.records;
  *origin = {taken.generation,    taken.start, records.pass, records.span, {}, {}, {},
             taken.run->indexed()};
  if (plan_.source.options.note_records) {
    for (std::uint32_t row = 0; row < block->size(); ++row) {
      origin->numbers.push_back(records.NumberOf(row));
    }
  }
  block->hold_ = taken.run->Lease(std::move(taken.delivery));
  NoteFirst();
  batches_.fetch_add(1, std::memory_order_relaxed);
  return ReadResult::kRecord;
}

void ReaderSession::DropRows() {
  rows_instance_.clear();
  rows_hold_.reset();
  rows_source_ = {};
  rows_ = row_ = 0;
}

ReadResult ReaderSession::ReadRow(Instance* instance, BatchOrigin* origin,
                                  const ReadLimits& limits) {
  instance->clear();
  const auto lock = LockUntil(rows_mutex_, limits.deadline);
  if (!lock.owns_lock()) return ReadResult::kTimeout;
  {
    const std::lock_guard state_lock(mutex_);
    if (rows_origin_.generation != generation_ || closed_) DropRows();
  }
  while (!TakeRow(instance)) {
    if (row_ < rows_) continue;
    const ReadResult result = FetchRows(limits);
    if (result != ReadResult::kRecord) return result;
  }
  instance->set_names(names_);
  *origin = OriginOf(rows_origin_, row_ - 1);
  NoteDelivered(rows_origin_, *origin);
  return ReadResult::kRecord;
}

ReadResult ReaderSession::FetchRows(const ReadLimits& limits) {
  DropRows();
  if (plan_.parser != nullptr) {
    const ReadResult result = ReadBatch(&rows_instance_, &rows_origin_, limits);
    if (result != ReadResult::kRecord) return result;
    rows_ = static_cast<std::size_t>(rows_instance_.Rows());
    return ReadResult::kRecord;
  }
  RecordBlock block;
  const ReadResult result = TakeBlock(&block, &rows_origin_, limits, &rows_source_);
  if (result != ReadResult::kRecord) return result;
  rows_records_ = block.records_;
  rows_hold_ = std::move(block.hold_);
  rows_ = rows_records_.size();
  while (rows_ > 0 && rows_records_[rows_ - 1].damaged()) --rows_;
  return ReadResult::kRecord;
}

bool ReaderSession::TakeRow(Instance* instance) {
  // The last one is no damaged record.
  while (row_ < rows_ && plan_.parser == nullptr && rows_records_[row_].damaged()) ++row_;
  if (row_ == rows_) return false;
  if (plan_.parser != nullptr) {
    CopyParsedRow(instance);
  } else if (plan_.passes_instances()) {
    // No other code sees this row: it was handed to this session.
    *instance =
        std::move(*reinterpret_cast<Instance*>(const_cast<std::byte*>(rows_records_[row_].data)));
  } else {
    instance->push_back(CopyOf(rows_records_[row_]));
    instance->set_is_record(true);
    // Checked after the copy: what was copied before the check came from the file as it was.
    const auto row = static_cast<std::uint32_t>(row_);
    if (rows_source_.delivery->ShrunkAt(row)) {
      instance->clear();
      if (LoseShrunk(rows_source_, row)) {
        ++row_;
      } else {
        DropRows();
      }
      return false;
    }
  }
  if (++row_ == rows_) {
    rows_instance_.clear();
    rows_hold_.reset();
    rows_source_ = {};
  }
  return true;
}

void ReaderSession::CopyParsedRow(Instance* instance) {
  const Parser& parser = *plan_.parser;
  const std::vector<FieldSpec>& fields = parser.fields();
  Instance columns(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Tensor& batch = rows_instance_[f];
    const std::size_t unit = fields[f].unit_bytes();
    std::size_t begin = row_ * unit;
    std::size_t bytes = unit;
    Tensor& tensor = columns[f];
    tensor.dtype = batch.dtype;
    tensor.shape = fields[f].shape;
    if (fields[f].ragged()) {
      begin = static_cast<std::size_t>(batch.lod[0][row_]) * unit;
      bytes = static_cast<std::size_t>(batch.lod[0][row_ + 1]) * unit - begin;
      tensor.shape[0] = batch.lod[0][row_ + 1] - batch.lod[0][row_];
    }
    const std::size_t lead = LeadBytes(parser, f);
    std::shared_ptr<std::byte[]> copy(new std::byte[lead + bytes]);  // not cleared first
    std::fill_n(copy.get(), lead, std::byte{});
    std::byte* const data = copy.get() + lead;
    std::copy_n(batch.data + begin, bytes, data);
    if (lead != 0) CountFrom(rows_instance_[f + 1].lod[0][row_], {data, bytes});
    tensor.data = data;
    tensor.bytes = bytes;
    tensor.owner = std::move(copy);
  }
  *instance = JoinLevels(parser, std::move(columns));
  instance->set_is_record(parser.gives_records());
}

std::uint64_t ReaderSession::SourcePass() const {
  if (plan_.source.records != nullptr) {
    const UserCodeLocked locked(this);
    return plan_.source.records->pass();
  }
  const std::shared_ptr<ReaderSession> input = InputSession();
  if (input == nullptr) return 0;
  const std::lock_guard lock(input->mutex_);
  return input->run_ != nullptr ? input->start_->source_pass : input->SourcePass();
}

std::uint64_t ReaderSession::SourcePassesOfRun() const {
  const std::shared_ptr<ReaderSession> input = InputSession();
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
      wanted_pass_ = start_->source_pass + SourcePassesOfRun();  // however far it has read ahead
    }
    pass = wanted_pass_;
  }
  const std::shared_ptr<ReaderSession> input = pass ? InputSession() : nullptr;
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

void ReaderSession::ForgetRead() {
  LetGo(turn_.TakeAllFound());
  starved_.reset();
  passed_over_.clear();
  passed_late_.clear();
  failed_at_.reset();
  unsettled_ = 0;
  passed_.reset();
  ++generation_;
}

void ReaderSession::Resume() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  resumed_.notify_all();  // they wait for mutex_
  if (closed_) return;
  // The aim is dropped even if the source refuses: a later restart asks for the beginning.
  std::optional<Aimed> aim = std::exchange(aim_, std::nullopt);
  const std::optional<std::uint64_t> pass = std::exchange(wanted_pass_, std::nullopt);
  ForgetRead();
  const UserCodeLocked locked(this);
  try {
    if (HasUserSource() && pass && (run_ != nullptr || *pass != SourcePass())) RewindSource(*pass);
    if (!aim) {
      aim = Aimed();
      if (HasUserSource()) aim->start.source_pass = SourcePass();
    }
  } catch (const Error& error) {
    // What was read ahead is gone with the run: reads report the reason from now on.
    turn_.Fail();
    failure_ = error.status();
    throw;
  }
  TakeAim(*std::move(aim));
  turn_.BeginAgain();
  failure_ = Status();
  NoteEndedRun();  // nothing can fail between this and the run's end, so it counts once
  wait_ns_.store(0, std::memory_order_relaxed);
  first_ns_.store(0, std::memory_order_relaxed);
  end_ns_.store(0, std::memory_order_relaxed);
  if (run_ == nullptr) return;
  kept_.ledger->Add(run_->Totals());
  run_.reset();  // first: the next one takes over its quota
  start_ns_.store(NowNs(), std::memory_order_relaxed);
  run_ = MakeRun();
}

void ReaderSession::Close() {
  std::shared_ptr<Run> run;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    planning_.request_stop();
    run = run_;
  }
  if (run != nullptr) run->Stop();
  {
    const std::lock_guard rows_lock(rows_mutex_);  // threads that waited with it were woken
    DropRows();
  }
  std::deque<Taken> unread;
  {
    const std::lock_guard lock(mutex_);
    // Only after the run was stopped: before that a thread could still take a later delivery.
    given_up_ = true;
    unread = turn_.TakeAllFound();
  }
  LetGo(std::move(unread));
  kept_.mappings->Clear();
  LiveList<ChainCounts>::Membership live;
  {
    const std::lock_guard lock(mutex_);
    live = std::move(live_);
  }
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
  return failure_;
}

namespace {

std::string RankText(const Rank& rank) {
  if (rank.world_size <= 1) return {};
  return "rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.world_size) +
         (rank.source == "none" ? "" : " by " + rank.source);
}

}  // namespace

PipelineStats ReaderSession::Stats() const {
  PipelineStats stats;
  stats.seeds = plan_.Seeds();
  stats.ranks = RankText(plan_.batch.rank);
  std::shared_ptr<Run> run;
  bool failed = false;
  {
    // Except for a moment of Resume, its totals are the run's or the ledger's.
    const std::lock_guard lock(mutex_);
    run = run_;
    kept_.ledger->Fill(&stats);
    if (run != nullptr) run->FillStats(&stats);
    stats.restored = restored_;
    stats.order = "as files are read";
    failed = turn_.failed();
  }
  if (run != nullptr && run->indexed() != nullptr) {
    stats.order = "by index: " + run->indexed()->Describe();
  }
  if (run == nullptr) return stats;
  if (stats.payload_bytes > 0) {
    stats.read_per_byte =
        static_cast<double>(stats.read_bytes) / static_cast<double>(stats.payload_bytes);
  }
  stats.batches = batches_.load(std::memory_order_relaxed);
  stats.batch_payload_bytes = batch_bytes_.load(std::memory_order_relaxed);
  const std::int64_t start = start_ns_.load(std::memory_order_relaxed);
  const std::int64_t first = first_ns_.load(std::memory_order_relaxed);
  const std::int64_t end = end_ns_.load(std::memory_order_relaxed);
  if (first > start) stats.first_batch_s = 1e-9 * static_cast<double>(first - start);
  stats.wall_s = 1e-9 * static_cast<double>((end > start ? end : NowNs()) - start);
  StageStats deliver{"deliver", 0, 0, "a batch"};
  deliver.wait_s = 1e-9 * static_cast<double>(wait_ns_.load(std::memory_order_relaxed));
  stats.stages.push_back(std::move(deliver));
  const ArenaReport arena = run->arena_report();
  stats.arena_bytes = arena.bytes;
  stats.arena_peak_bytes = arena.peak_in_use_bytes;
  stats.pages = arena.pages;
  // If nothing came before a failure, nothing was slow.
  if (stats.batches > 0 || !failed) ExplainSpeed(FactsOf(*run), &stats);
  return stats;
}

namespace {

void AddStages(const std::vector<StageStats>& more, std::vector<StageStats>* stages) {
  for (const StageStats& stage : more) {
    const auto same = std::ranges::find(*stages, stage.name, &StageStats::name);
    if (same == stages->end()) {
      stages->push_back(stage);
      continue;
    }
    same->busy_s += stage.busy_s;
    same->wait_s += stage.wait_s;
  }
}

// Keeps counts from falling: a record that turns out damaged is taken back.
void KeepGrowing(const PipelineStats& before, PipelineStats* now) {
  now->records = std::max(now->records, before.records);
  now->payload_bytes = std::max(now->payload_bytes, before.payload_bytes);
  now->lost_ranges = std::max(now->lost_ranges, before.lost_ranges);
}

}  // namespace

std::vector<StageStats> ReaderSession::StagesOfAllRuns() const {
  PipelineStats stats;
  run_->FillStats(&stats);
  StageStats deliver{"deliver", 0, 0, "a batch"};
  deliver.wait_s = 1e-9 * static_cast<double>(wait_ns_.load(std::memory_order_relaxed));
  stats.stages.push_back(std::move(deliver));
  AddStages(ended_stages_, &stats.stages);
  return std::move(stats.stages);
}

void ReaderSession::NoteEndedRun() {
  if (run_ != nullptr && live_) ended_stages_ = StagesOfAllRuns();
}

bool ReaderSession::Count(ChainCounts* counts) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || run_ == nullptr) return false;
  PipelineStats stats;
  kept_.ledger->FillCounts(&stats, &counts->paths);
  run_->FillStats(&stats);
  stats.stages = StagesOfAllRuns();
  stats.ranks = RankText(plan_.batch.rank);
  stats.batches = batches_.load(std::memory_order_relaxed);
  stats.batch_payload_bytes = batch_bytes_.load(std::memory_order_relaxed);
  const std::int64_t start = start_ns_.load(std::memory_order_relaxed);
  const std::int64_t first = first_ns_.load(std::memory_order_relaxed);
  if (first > start) stats.first_batch_s = 1e-9 * static_cast<double>(first - start);
  const ArenaUse arena = run_->arena().Use();
  stats.arena_bytes = arena.bytes;
  stats.arena_peak_bytes = arena.peak_in_use_bytes;
  counts->arena_used_bytes = arena.in_use_bytes;
  if (counts->source.empty()) counts->source = FirstSource(plan_.source);
  KeepGrowing(counts->stats, &stats);
  counts->stats = std::move(stats);
  counts->run = run_->Counts();
  return true;
}

ChainFacts ReaderSession::FactsOf(const Run& run) const {
  ChainFacts facts;
  facts.threads = run.threads();
  facts.cpus = run.cpus();
  if (plan_.record_parser != nullptr) facts.parser = plan_.record_parser->name();
  const SourceNode& source = plan_.source;
  if (!source.streams.empty()) facts.input = "whoever writes the stream";
  if (source.instances != nullptr || source.records != nullptr) facts.input = "your own reader";
  if (plan_.parser != nullptr) facts.function = plan_.parser->function_name();
  facts.makes_more = plan_.record_parser != nullptr && plan_.parser != plan_.record_parser;
  return facts;
}

}  // namespace ringfeed
