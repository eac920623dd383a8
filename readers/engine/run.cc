#include "readers/engine/run.h"

#include <algorithm>
#include <utility>

#include "base/refusal.h"
#include "base/stream_copy.h"
#include "io/file_mapping.h"
#include "readers/engine/blocks/failures.h"
#include "readers/engine/blocks/locate.h"
#include "readers/engine/blocks/payload_checks.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

TakenAhead::Amount AmountOf(const Block& block) { return {block.rows(), block.taken_bytes}; }

}  // namespace

Run::~Run() { Stop(); }

void Run::Start() {
  const std::lock_guard lock(stop_mutex_);
  pool_.Start([this](std::size_t worker) { WorkerMain(*workers_[worker]); });
}

void Run::Stop() {
  const std::lock_guard lock(stop_mutex_);
  stop_.request_stop();
  out_.Cancel();
  pool_.WakeAll();
  pool_.Join();
  opened_files_.reset();
  // Deliveries that consumers hold live on in the arena; the next run may plan with the rest.
  budget_->Release();
  if (!std::exchange(let_go_, true)) LetGoOfMemory();
}

// Rows of batches are copies: no consumer sees their blocks, except those that its batch keeps.
void Run::LetGoOfMemory() {
  // Order: acq_rel, here, in Claim and in NoteRecordsBack: the last one to come sees all uses.
  const bool all = held_records_.fetch_or(kLetGo, std::memory_order_acq_rel) == 0;
  if (all) blocks_.LetGo();
  if (batch_sink_ != nullptr) batch_sink_->LetGo();
}

bool Run::Claim(const Delivery& delivery) {
  if (delivery.batch != nullptr) return BatchSink::Claim(delivery.batch);
  if ((held_records_.fetch_add(1, std::memory_order_acq_rel) & kLetGo) == 0) return true;
  NoteRecordsBack();
  return false;
}

void Run::NoteRecordsBack() {
  if (held_records_.fetch_sub(1, std::memory_order_acq_rel) == kLetGo + 1) blocks_.LetGo();
}

// ---- Workers ----

void Run::SetUp(Worker& worker) {
  At(RunPoint::kSetUp);
  {
    const std::lock_guard lock(worker.io_mutex);
    worker.io = std::make_unique<WorkerIo>(plan_.source.options.io, read_arena_, hooks_.engines,
                                           direct_.reads());
  }
  LaneContext& context = worker.context;
  context.options = &plan_.source.options;
  context.check_elements = ElementCheckOf(plan_.parser);
  context.stop = stop_.get_token();
  if (context.options->format.empty()) context.check_format = FormatCheckOf(plan_.parser);
  context.io = worker.io.get();
  context.trim = plan_.shuffled();
  context.written = plan_.parser != nullptr;
  const bool leaves_fields = plan_.left_fields.any();
  context.leaves_sums_of_slabs = leaves_sums_ && (leaves_fields || SumBeside::Works());
  if (leaves_sums_) context.leaves_sums_from = leaves_fields ? 0 : hooks_.long_payload_bytes;
  context.fails_in_order = planner_->fails_in_order();
  context.read_clock = &worker.read;
  context.wait_clock = &worker.wait_medium;
  context.decompress_clock = &worker.decompress;
  context.frame_clock = &worker.frame;
  context.read_bytes = &worker.read_bytes;
  if (plan_.parser != nullptr) {
    worker.scratch.parser = plan_.parser->NewScratch();
    worker.locate_scratch = plan_.parser->NewScratch();
  }
}

void Run::LetGoOfLanes(Worker& worker) {
  for (LaneState* lane : worker.lanes) {
    lane->done = true;
    lane->lane->LetGo();
  }
  worker.has_let_go = true;
}

void Run::WorkOnce(Worker& worker) {
  // Order: pairs with the release in End.
  if (!worker.has_let_go && ended_.load(std::memory_order_acquire)) LetGoOfLanes(worker);
  if (pool_.TakesTasks(worker.index) && plan_turn_.TakeAsk()) RequestPlan(&worker);
  // A user's reader of files may wait until what it gave before is taken. Another worker may have
  // planned that, and its rows are then this one's to write.
  const Tasks first = plan_.source.file_readers != nullptr ? Tasks::kAny : Tasks::kOwn;
  if (FrameTurn(worker) || WriteRows(worker, first)) return;
  worker.frames_turn = true;
  if (ReadLane(worker) || WriteRows(worker, Tasks::kAny)) return;
  SleepUntilWork(worker);
}

// Rows get their places in the order of turns. While a worker writes between the parts of its turn,
// no later turn gets on. So it frames all of the turn, and then writes: its own rows, which are in
// its cache, and others' if it has nothing to frame. A worker alone writes what is hot, and so does
// one with a user's reader of files.
bool Run::FrameTurn(Worker& worker) {
  if (!worker.frames_turn || pool_.writers() == 1 || plan_.source.file_readers != nullptr) {
    return false;
  }
  worker.frames_turn = false;
  LaneState* const lane = NextLane(worker, {});
  if (lane == nullptr) return false;
  const auto turn = lane->place;
  if (!FillBlock(worker, *lane)) return false;
  worker.frames_turn = lane->place == turn && !lane->done;
  return true;
}

void Run::WorkerMain(Worker& worker) {
  const WorkerStop stop(stop_.get_token(), this);
  try {
    SetUp(worker);
  } catch (...) {
    // Without this worker its lanes stop: nothing more comes, from now on.
    End(out_.taken(), StatusOfThrown("a reader thread could not be set up"));
    return;
  }
  while (!stopping()) {
    try {
      WorkOnce(worker);
    } catch (...) {
      FailBehindPlan(worker, StatusOfThrown("a reader thread failed"));
    }
  }
  // Lanes give their buffers up before the engine goes, the engine waits for the kernel.
  LetGoOfLanes(worker);
  for (LaneState* lane : worker.lanes) lane->lane.reset();
  const std::lock_guard lock(worker.io_mutex);
  worker.io.reset();
}

void Run::FailBehindPlan(Worker& worker, const Status& status) {
  // It goes on with its writing, since what is planned is good.
  for (LaneState* lane : worker.lanes) lane->done = true;
  {
    const std::lock_guard lock(status_mutex_);
    if (failure_.ok()) failure_ = status;
  }
  // Order: pairs with the acquire in WorkerFailure, for failure_.
  failed_.store(true, std::memory_order_release);
  RequestPlan(&worker);
}

bool Run::WriteRows(Worker& worker, Tasks tasks) {
  WriteTask* task = nullptr;
  const bool taken = tasks == Tasks::kOwn ? pool_.TakeOwnTask(worker.index, &task)
                                          : pool_.TakeTask(worker.index, &task);
  if (!taken) return false;
  const StageTimer timer(worker.write);
  FetchUpcoming(worker);
  AwaitSigbus();
  batch_sink_->writer().Write(task, &worker.scratch);
  return true;
}

void Run::FetchUpcoming(Worker& worker) {
  const LaneState* lane = nullptr;
  for (const LaneState* each : worker.lanes) {
    if (!each->done && (lane == nullptr || each->place < lane->place)) lane = each;
  }
  const std::span<const std::byte> upcoming = lane != nullptr && lane->filling == nullptr
                                                  ? lane->lane->Upcoming()
                                                  : std::span<const std::byte>();
  if (upcoming.data() == worker.fetched) return;
  worker.fetched = upcoming.data();
  SetStreamCompanion(upcoming.data(), upcoming.size());
}

bool Run::MayFill(const LaneState& lane) const {
  // To find out that a parser fits no record, as many records are read as that takes.
  return read_ahead_.MayBegin(lane.index, lane.lane->frames_hot()) &&
         (taken_ahead_.MayTake() || judge_.open());
}

Run::LaneState* Run::NextLane(Worker& worker, const std::vector<LaneState*>& tried) const {
  LaneState* next = nullptr;
  for (LaneState* lane : worker.lanes) {
    if (lane->done || std::find(tried.begin(), tried.end(), lane) != tried.end()) continue;
    if (lane->filling == nullptr && !MayFill(*lane)) continue;
    if (next == nullptr || lane->place < next->place) next = lane;
  }
  return next;
}

bool Run::ReadLane(Worker& worker) {
  std::vector<LaneState*> tried;
  while (LaneState* lane = NextLane(worker, tried)) {
    if (FillBlock(worker, *lane)) return true;
    tried.push_back(lane);
  }
  return false;
}

void Run::FailBlock(Block* block) {
  // Records without their fields' places are of no use.
  block->frame.records.clear();
  block->row_failures.clear();
  block->refused.clear();
  block->status = StatusOfThrown("records cannot be read");
  block->denied = IsRefusal(block->status);
}

bool Run::MayLeaveSums(const Block& block, std::uint64_t pass) const {
  // If the bytes were just copied into memory, the CPU takes the sums while they are in the cache,
  // unless a writer can take them beside its copy.
  const bool is_cold = plan_.left_fields.any() || !block.files.empty();
  return (is_cold || SumBeside::Works()) && !hooks_.takes_sums_at_once && block.instances.empty() &&
         !judge_.open() && trusted_pass_.load(std::memory_order_relaxed) == pass &&
         (start_.mark.outputs == 0 || HasLeftOut());
}

void Run::LocateFields(Worker& worker, Block* block) {
  for (const ContentStep& step : plan_.content) {
    const StageTimer timer(worker.filter);
    if (step.before_locate) step.before_locate(block);
  }
  if (plan_.parser != nullptr && plan_.parser->two_phase()) {
    const StageTimer timer(worker.frame);
    LocateRows(*plan_.parser, worker.locate_scratch.get(), plan_.source.options.on_damage,
               judge_.open(), block);
  }
  for (const ContentStep& step : plan_.content) {
    const StageTimer timer(worker.filter);
    if (step.after_locate) step.after_locate(block);
  }
  LoseShrunkRows(plan_.source.options.on_damage, block);
  for (std::uint32_t row = 0; !block->filtered.empty() && row < block->rows(); ++row) {
    const RecordSpan& record = block->frame.records[row];
    if (record.damaged() || !block->Filtered(row)) continue;
    ++block->filtered_rows;
    block->filtered_bytes += record.size;
  }
}

bool Run::FillBlock(Worker& worker, LaneState& lane) {
  if (lane.filling == nullptr) {
    read_ahead_.Take(lane.index, 1);
    lane.filling = blocks_.Take();
    lane.filling->lane = lane.index;
    lane.filling->fails_in_order = planner_->fails_in_order();
  }
  Block* const block = lane.filling;
  AwaitSigbus();
  try {
    if (!lane.lane->Fill(block)) return false;
    const std::uint64_t pass = start_.mark.pass + lane.place.first;
    if (!block->frame.unchecked.empty() && !MayLeaveSums(*block, pass)) {
      const StageTimer timer(worker.frame);
      CheckPayloads(plan_.source.options.on_damage, block);
    }
    LocateFields(worker, block);
  } catch (...) {
    FailBlock(block);
  }
  if (block->fails_in_order && !block->status.ok() && !block->denied) block->FailBehindRows();
  std::uint32_t good_rows = 0;
  std::uint64_t payload_bytes = 0;
  for (const RecordSpan& record : block->frame.records) {  // without branches: there are many
    good_rows += record.damaged() ? 0 : 1;
    payload_bytes += record.damaged() ? 0 : record.size;
  }
  block->good_rows += good_rows;
  block->payload_bytes += payload_bytes;
  for (std::uint32_t row = 0; taken_ahead_.counts_bytes() && row < block->rows(); ++row) {
    block->taken_bytes += block->BytesOf(row);
  }
  const std::size_t taken = (block->slab_bytes() + credit_bytes_ - 1) / credit_bytes_;
  block->credits = std::max(1, static_cast<std::int32_t>(taken));
  read_ahead_.Take(lane.index, block->credits - 1);
  Publish(worker, lane);
  return true;
}

void Run::Publish(Worker& worker, LaneState& lane) {
  Block* const block = std::exchange(lane.filling, nullptr);
  if (block->pass_ends) {
    lane.place = {lane.place.first + 1, 0};
  } else if (block->turn_ends) {
    ++lane.place.second;
  }
  lane.done = block->stream_ends || !block->status.ok();
  Block* item = block;
  read_ahead_.NotePublished(lane.index, block->payload_bytes);
  if (taken_ahead_.limited()) taken_ahead_.NotePublished(AmountOf(*block));
  (void)lane.out.TryPush(std::move(item));  // credits leave room for every block
  RequestPlan(&worker);
}

// Why no thread sleeps for ever.
//
// A worker sleeps while HasWork is false, by the protocol of its Sleeper: a thread that changes
// what HasWork reads writes first, then calls Wake. A change in the worker's own thread wakes
// nobody: that thread looks again before it rests (WorkerPool::IsCurrent).
//
//   HasWork looks at        made true by                       which then wakes
//   stop_                   Stop                               all workers
//   ended_                  End                                all workers
//   PlanTurn::IsAsked       AskForPlan: a slot, memory or      worker 0, and an idle one if
//                           room for a delivery came back      worker 0 is at work (WakeAny)
//   tasks, overflow_        Submit                             the writer that has the task, or
//                                                              WakeAny
//   ReadAhead::MayBegin     ReadAhead::GiveBack, MissDue       its worker, as they say
//   TakenAhead::MayTake     its NotePlanned, NoteTaken and     the workers of all lanes that it
//                           NoteAsking                         holds back (WakeLanes)
//   of a lane that fills a block:
//     nothing in flight     its own thread                     nobody
//     Lane::waits           FileSchedule::EndTurn              all workers (Options::moved), if
//                                                              a lane was told to wait
//
// done, filling, in_flight and frames_hot are the worker's own. Without an order no lane is due,
// and only credits limit what is framed ahead: if all others wait for a lane's turn, the last of a
// pass, what its worker framed of the next pass must never keep that lane back.
//
// The plan sleeps, too, if it returns before it has used up what there is. What it waits for:
//
//   a block of the due lane   Publish, which runs the plan itself (RequestPlan)
//   a batch slot              ReleaseDelivery: AskForPlan
//   memory for a block        MemoryBudget::NoteFreed (RecycleBlock), ReleaseDelivery and
//                             BatchDone: AskForPlan
//   room for a delivery       a consumer that takes one (Outbox): AskForPlan
//
// Should this have a gap, LateWakes finds it.
bool Run::HasWork(const Worker& worker) const {
  if (stopping()) return true;
  if (!worker.has_let_go && ended_.load(std::memory_order_acquire)) return true;  // as in WorkOnce
  if (pool_.TakesTasks(worker.index) && (plan_turn_.IsAsked() || pool_.HasTask())) return true;
  for (const LaneState* lane : worker.lanes) {
    if (lane->done) continue;
    if (lane->filling == nullptr ? MayFill(*lane) : MayGoOn(worker, *lane)) return true;
  }
  return false;
}

bool Run::MayGoOn(const Worker& worker, const LaneState& lane) {
  // What was told to wait for other lanes has nothing in flight of its own.
  return lane.lane->was_held_up() ? !lane.lane->waits() : !worker.io->in_flight();
}

void Run::SleepUntilWork(Worker& worker) {
  const auto has_work = [&] { return HasWork(worker); };
  Sleeper& sleeper = pool_.sleeper(worker.index);
  if (worker.io->in_flight()) {
    const StageTimer timer(worker.wait_medium);
    sleeper.SleepInEngine(has_work, [&](bool wait) {
      worker.io->Reap(wait ? Clock::time_point::max() : Clock::time_point());
    });
    return;
  }
  sleeper.Sleep(has_work, [&](auto&& sleep) {
    const StageTimer timer(backlogged_.load(std::memory_order_relaxed) ? worker.wait_slot
                                                                       : worker.wait_other);
    sleep();
  });
  if (!sleeper.TakeLook()) return;
  const auto plan = [&] { return RequestPlan(&worker); };
  late_wakes_.LookAgain(worker.index, &pool_, has_work, plan, [this] { return stopping(); });
}

WorkerPool<WriteTask*>::Hooks Run::PoolHooks() {
  WorkerPool<WriteTask*>::Hooks hooks;
  hooks.interrupt = [this](std::size_t number) {
    Worker& worker = *workers_[number];
    const std::lock_guard lock(worker.io_mutex);
    if (worker.io != nullptr) worker.io->Wake();
  };
  if (hooks_.leaves_out_wake) {
    hooks.leaves_out_wake = [this] { return !stopping() && hooks_.leaves_out_wake(); };
  }
  return hooks;
}

std::size_t Run::WriterFor(std::uint32_t lane) {
  const std::size_t owner = lanes_[lane % lanes_.size()]->worker;
  return pool_.TakesTasks(owner) ? owner : next_writer_++ % pool_.writers();
}

// ---- The plan ----

bool Run::RequestPlan(Worker* worker) {
  bool got_further = false;
  plan_turn_.Request([&] {
    const StageTimer timer(worker->plan);
    const std::uint64_t steps = plan_steps_;
    try {
      if (plan_.left_fields.any() && !direct_) budget_->GrowKept();
      planner_->GoOn();
      if (taken_ahead_.limited()) NotePlannedAhead(*worker);
    } catch (...) {
      // No thread would get the turn again.
      End(out_.taken(), StatusOfThrown("the plan cannot go on"));
    }
    got_further = got_further || plan_steps_ != steps;
  });
  return got_further;
}

void Run::AskForPlan() {
  plan_turn_.Ask([this] {
    if (!pool_.IsAnyCurrent()) pool_.WakeAny(0);  // else it looks by itself
  });
}

// ---- Planner::Host ----

Status Run::WorkerFailure() const {
  // Order: pairs with the release in FailBehindPlan.
  return failed_.load(std::memory_order_acquire) ? failure() : Status();
}

bool Run::TakeDue(std::size_t lane, Block** block) {
  read_ahead_.SetDue(lane);
  if (lanes_[lane]->out.TryPop(*block) == QueueResult::kOk) return true;
  read_ahead_.MissDue([this](std::size_t worker) {
    if (!pool_.IsCurrent(worker)) pool_.Wake(worker);
  });
  return false;
}

bool Run::TakeAny(std::size_t lane, Block** block) {
  return lanes_[lane]->out.TryPop(*block) == QueueResult::kOk;
}

bool Run::MayHold(const Block& block, Status* never) {
  if (hold_credits_ || block.runs.empty()) return true;
  const bool outstanding =
      planner_->HasOutstanding() || (batch_sink_ == nullptr && out_.IsAnyOut());
  if (budget_->MayHold(block.slab_bytes())) return true;
  if (!outstanding) *never = budget_->WhyNot();  // else RecycleBlock asks again
  return false;
}

void Run::NotePlanned(const Block& block) {
  ++plan_steps_;
  At(RunPoint::kPlan);
  const TakenAhead::Amount amount = AmountOf(block);
  planned_.records += amount.records;
  planned_.bytes += amount.bytes;
  if (!hold_credits_) GiveCredits(*lanes_[block.lane], block.credits, block.payload_bytes);
  budget_->NoteHeld(block.slab_bytes());
  if (leaves_sums_ && block.good_rows > 0 && block.frame.unchecked.empty()) {
    trusted_pass_.store(planner_->passes_ended(), std::memory_order_relaxed);
  }
}

void Run::Submit(WriteTask* task, std::uint32_t near_lane) {
  ++plan_steps_;
  pool_.Submit(task, WriterFor(near_lane), share_tasks_);
}

void Run::Drop(Block* block, std::uint32_t rows) {
  if (block->holds.fetch_sub(rows, std::memory_order_acq_rel) == rows) RecycleBlock(block);
}

void Run::Deliver(std::uint64_t number, Delivery delivery) {
  if (delivery.records != nullptr) ++plan_steps_;  // the plan alone delivers these
  // Nothing after a failed batch is delivered. Another consumer could otherwise see batch n + 1
  // before the failure of batch n.
  if (delivery.batch != nullptr && !delivery.batch->status.ok()) {
    EndAt(number + 1, delivery.batch->status, true);
  }
  out_.NoteOut();
  if (judge_.Take(number, &delivery)) return;
  out_.Put(number, std::move(delivery));
}

void Run::NoteRows(const RowTally& before, const RowTally& now) { ledger_->Add(before, now); }

void Run::NoteSkipped(const RecordSpan& record, const Status& why) {
  ledger_->NoteSkipped(DamagedRecord(why, record), record.size);
}

void Run::NoteLostPayload(const DamagedRange& range, std::size_t bytes) {
  ledger_->NoteSkipped(range, bytes);
}

void Run::NoteLostOfDropped(std::uint64_t rows) { ledger_->TakeOffDropped(rows); }

void Run::EndBehind(const BatchBuffer& batch) {
  Stop();
  PlannedSums counted = batch_sink_->sums();
  // Includes what a shuffle holds, which goes with the run.
  counted.bytes = planner_->bytes_taken() - batch_sink_->tally().lost_bytes;
  if (ended_at_) counted = *ended_at_;
  const PlannedSums& before = batch.before;
  ended_at_ = {before.rows + batch.rows,
               before.bytes + batch.payload_bytes.load(std::memory_order_relaxed), before.dropped};
  ledger_->TakeOff({counted.rows - ended_at_->rows, counted.bytes - ended_at_->bytes,
                    counted.dropped - ended_at_->dropped});
  passes_at_failure_.store(*batch.failed_payload_pass, std::memory_order_relaxed);
}

void Run::NoteLeftOut(const PlanPosition& behind) {
  const std::lock_guard lock(status_mutex_);
  left_out_ = behind;
}

std::optional<PlanPosition> Run::left_out() const {
  const std::lock_guard lock(status_mutex_);
  return left_out_;
}

void Run::BatchDone() {
  // A plan that waits for a slot or for memory looks again: nothing else may come to wake it.
  if (!hold_credits_) AskForPlan();
}

bool Run::HasRoom(std::uint64_t number) { return out_.HasRoom(number); }

std::size_t Run::GrantBatches(std::size_t bytes) {
  const std::size_t granted = budget_->GrantBatches(bytes);
  if (plan_.left_fields.any() && !direct_) {
    // Their rows may be in blocks that have other rows, too, and each worker frames a turn before
    // any row of it is written: a quarter more, for the bytes between its records.
    const std::size_t turns = pool_.writers() * plan_.source.options.stripe_bytes;
    budget_->AllowKept(2 * std::max(granted, turns + turns / 4));
  }
  return granted;
}

void Run::End(std::uint64_t number, const Status& given) {
  EndAt(number, planner_->CheckedEnd(given), false);
}

void Run::EndAt(std::uint64_t number, const Status& status, bool within) {
  out_.NoteEnd(number, status, within);
  judge_.NoteEnd(number);
  out_.Close(number);
  // What the lanes had still to read is not needed. Order: pairs with the acquire in WorkOnce.
  ended_.store(true, std::memory_order_release);
  pool_.WakeAll();
}

Status Run::failure() const {
  const std::lock_guard lock(status_mutex_);
  return failure_;
}

// A consumer that is told of the end was handed all batches: what their writers met is counted.
Status Run::end_status() const {
  const Status why = out_.status();
  return why.ok() ? planner_->WhyTooMuchDamage() : why;
}

// ---- Memory and deliveries ----

// The first batch that keeps a block pays for its memory, the last one gives that back.
bool Run::Keep(Block* block) {
  const std::size_t bytes = block->slab_bytes();
  std::uint32_t keeps = block->keeps.load(std::memory_order_relaxed);
  while (keeps != Block::kHeld) {
    if (block->keeps.compare_exchange_weak(keeps, keeps + 1, std::memory_order_relaxed))
      return true;
  }
  if (!KeepBytes(bytes)) {
    // The plan may set more aside, for the rows that come next.
    if (!direct_) AskForPlan();
    return false;
  }
  // Another one may pay meanwhile: then both have, and the last of both gives back one part.
  const std::uint32_t before = block->keeps.fetch_add(1, std::memory_order_relaxed);
  if (before != Block::kHeld) LetGoOfBytes(bytes);
  return true;
}

void Run::LetGo(Block* block) { DropKeep(block, 1); }

void Run::DropKeep(Block* block, std::uint32_t keep) {
  const std::size_t bytes = block->slab_bytes();
  // Order: as of holds. The thread that drops the last reason sees all reads of the block done.
  const std::uint32_t left = block->keeps.fetch_sub(keep, std::memory_order_acq_rel) - keep;
  if (keep != Block::kHeld && (left & ~Block::kHeld) == 0) LetGoOfBytes(bytes);
  if (left == 0) blocks_.GiveBack(block);
}

void Run::RecycleBlock(Block* block) {
  LaneState& lane = *lanes_[block->lane];
  const std::int32_t credits = block->credits;
  const std::size_t bytes = block->payload_bytes;
  const std::size_t slab_bytes = block->slab_bytes();
  DropKeep(block, Block::kHeld);  // first: the plan goes on with this memory
  budget_->NoteFreed(slab_bytes, [this] {
    if (!hold_credits_) AskForPlan();  // else it never waits for memory
  });
  if (hold_credits_) GiveCredits(lane, credits, bytes);
}

// ---- What is taken ahead ----

void Run::NotePlannedAhead(const Worker& planner) {
  const PlanSink::Planned planned = planner_->planned();
  taken_ahead_.NotePlanned(std::exchange(planned_, {}),
                           {{planned.rows, planned.bytes}, planned.deliveries});
  for (const auto& lane : lanes_) {
    // A planner that has a lane looks again before it rests.
    if (lane->worker != planner.index) pool_.Wake(lane->worker);
  }
}

void Run::NoteTaken(const Delivery& delivery) {
  if (delivery.batch != nullptr) {
    taken_ahead_.NoteTaken({delivery.batch->records, delivery.batch->record_bytes});
  } else if (delivery.records != nullptr) {
    taken_ahead_.NoteTaken({delivery.records->rows, delivery.records->bytes});
  }
  WakeLanes();
}

void Run::NoteAsking() {
  if (taken_ahead_.NoteAsking()) WakeLanes();
}

void Run::WakeLanes() {
  for (const auto& lane : lanes_) pool_.Wake(lane->worker);
}

void Run::GiveCredits(LaneState& lane, std::int32_t count, std::size_t bytes) {
  read_ahead_.GiveBack(lane.index, count, bytes,
                       [this](std::size_t worker) { pool_.Wake(worker); });
}

QueueResult Run::Next(Delivery* delivery, const std::stop_token& stop) {
  return NextUntil(delivery, kNoDeadline, stop);
}

QueueResult Run::NextUntil(Delivery* delivery, Deadline deadline, const std::stop_token& stop) {
  if (!stop.stop_possible()) return Await(delivery, deadline, stop_.get_token());
  std::stop_source either;
  const auto request = [&either] { either.request_stop(); };
  const std::stop_callback own(stop_.get_token(), request);
  const std::stop_callback other(stop, request);
  return Await(delivery, deadline, either.get_token());
}

QueueResult Run::TryNext(Delivery* delivery) {
  if (taken_ahead_.limited()) NoteAsking();
  const QueueResult result = out_.Take(delivery, [this] { AskForPlan(); });
  if (result == QueueResult::kOk && taken_ahead_.limited()) NoteTaken(*delivery);
  return Claimed(result, *delivery);
}

QueueResult Run::Await(Delivery* delivery, Deadline deadline, const std::stop_token& stop) {
  if (taken_ahead_.limited()) NoteAsking();
  while (true) {
    const Deadline look = std::min(deadline, late_wakes_.NextLook());
    const QueueResult result = out_.TakeUntil(delivery, look, stop, [this] { AskForPlan(); });
    if (result == QueueResult::kOk && taken_ahead_.limited()) NoteTaken(*delivery);
    if (result != QueueResult::kTimeout) return Claimed(result, *delivery);
    late_wakes_.NoteSilence(out_.taken(), &pool_);
    if (NativeQueuePolicy::Expired(deadline)) return result;
  }
}

// ---- Holders of deliveries ----

std::optional<Starvation> Run::StarvedBy() const {
  // A thread that has taken a delivery and does not hold it yet may let it go next.
  const std::uint64_t taken = out_.taken();
  if (holders_.seen() != taken || holders_.held() == 0) return std::nullopt;
  Starvation starvation{holders_.AllAsk(), pool_.wakes()};
  // While some holders are at work, a wake for nothing is no news.
  if (!starvation.all_ask) starvation.mark = taken + holders_.given_back();
  if (plan_turn_.IsBusy()) return std::nullopt;
  // A stream's own thread may stay in its source's call for any time. That matters only if its lane
  // may come next.
  const std::size_t due = read_ahead_.WorkerOf(read_ahead_.due());
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const bool counts = unordered_ || pool_.TakesTasks(i) || i == due;
    if (counts && !pool_.sleeper(i).IsSoundAsleep()) return std::nullopt;
  }
  if (out_.taken() != taken) return std::nullopt;
  return starvation;
}

bool Run::WaitsForSource() const {
  if (plan_turn_.IsBusy()) return false;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (pool_.TakesTasks(i) && !pool_.sleeper(i).IsSoundAsleep()) return false;
  }
  return true;
}

void Run::NoteSeen(Delivery* delivery) {
  delivery->seen = true;
  holders_.NoteSeen();
}

std::shared_ptr<const void> Run::Lease(Delivery delivery) {
  AwaitSigbus();  // deliveries may be in mapped files
  struct Holder {
    Holder(std::shared_ptr<Run> its_run, Delivery its_delivery)
        : run(std::move(its_run)), delivery(std::move(its_delivery)) {
      run->holders_.NoteTaken(thread, delivery.seen);
    }
    ~Holder() {
      run->ReleaseDelivery(delivery);
      run->holders_.NoteBack(thread);
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    const std::shared_ptr<Run> run;
    const Delivery delivery;
    const std::thread::id thread = std::this_thread::get_id();
  };
  return std::make_shared<const Holder>(shared_from_this(), std::move(delivery));
}

void Run::ReleaseDelivery(const Delivery& delivery) {
  if (delivery.batch != nullptr) {
    batch_sink_->Release(delivery.batch);
  } else if (delivery.records != nullptr) {
    const Delivery::Records& records = *delivery.records;
    if (records.block != nullptr) Drop(records.block, records.rows);
    for (const RowRef& ref : records.refs) Drop(ref.block, 1);
    NoteRecordsBack();
  }
  out_.NoteBack();
  if (!stopping()) AskForPlan();
}

FileNews Run::News() const {
  FileNews news;
  news.opened = [ledger = ledger_, mappings = mappings_](const InputFile& file) {
    mappings->Note(file);
    ledger->NoteOpened(file.choice());
  };
  news.read = [ledger = ledger_](const std::string& name) {
    ledger->NoteFile(name, Ledger::FileFate::kRead);
  };
  news.failed = [ledger = ledger_](const std::string& name, const Status& why) {
    ledger->NoteFile(name, why);
  };
  return news;
}

Ledger::RunTotals Run::Totals() const {
  Ledger::RunTotals totals;
  const std::uint64_t failed = passes_at_failure_.load(std::memory_order_relaxed);
  totals.passes = (failed == kNoPass ? planner_->passes_come() : failed) - start_.mark.pass;
  totals.late_wakes = late_wakes();
  for (const auto& worker : workers_) totals.read_bytes += worker->read_bytes.count();
  if (batch_sink_ != nullptr) totals.grown_batches = batch_sink_->grown();
  return totals;
}

RunCounts Run::Counts() const {
  RunCounts counts;
  counts.lane_count = lanes_.size();
  for (std::size_t i = 0; i < std::min(lanes_.size(), RunCounts::kMostLanes); ++i) {
    counts.lanes.push_back({lanes_[i]->out.SizeApprox(), read_ahead_.Credits(i)});
  }
  counts.threads = threads();
  counts.held = holders_.held();
  const std::size_t out = out_.out();
  counts.ready = out - std::min(out, counts.held);
  counts.held_bytes = budget_->held_bytes();
  counts.memory_limit_bytes = budget_->limit();
  return counts;
}

void Run::FillStats(PipelineStats* stats) const {
  const Ledger::RunTotals totals = Totals();
  stats->passes_ended += totals.passes;
  stats->read_bytes += totals.read_bytes;
  stats->grown_batches += totals.grown_batches;
  stats->late_wakes += totals.late_wakes;
  StageStats read{"read", 0, 0, "the medium"};
  StageStats decompress{"decompress", 0, 0, ""};
  StageStats frame{"frame", 0, 0, ""};
  StageStats filter{"filter", 0, 0, ""};
  StageStats plan{"plan", 0, 0, ""};
  StageStats write{"write", 0, 0, "a free batch slot"};
  StageStats idle{"idle", 0, 0, "earlier records, or room"};
  for (const auto& worker : workers_) {
    read.busy_s += worker->read.seconds();
    read.wait_s += worker->wait_medium.seconds();
    decompress.busy_s += worker->decompress.seconds();
    frame.busy_s += worker->frame.seconds();
    filter.busy_s += worker->filter.seconds();
    plan.busy_s += worker->plan.seconds();
    write.busy_s += worker->write.seconds();
    write.wait_s += worker->wait_slot.seconds();
    idle.wait_s += worker->wait_other.seconds();
  }
  stats->stages = {read, decompress, frame, filter, plan, write, idle};
  std::erase_if(stats->stages, [](const StageStats& stage) {
    return stage.busy_s <= 0 && (stage.name == "decompress" || stage.name == "filter");
  });
}

}  // namespace ringfeed
