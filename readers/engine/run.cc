#include "readers/engine/run.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/machine/cpu_count.h"
#include "base/refusal.h"
#include "base/stream_copy.h"
#include "readers/engine/batches/record_sink.h"
#include "readers/engine/blocks/failures.h"
#include "readers/engine/blocks/locate.h"
#include "readers/engine/sources/planned_lane.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kDeliveries = 2 * BatchSink::kMaxSlots;  // room for every slot at once
constexpr std::size_t kRecordDeliveries = 16;
constexpr int kMaxThreads = 16;
/// Payload that a worker frames before its turn in file order comes: what is written later than
/// that has left the cache of its core. Measured on parts of 128 to 512 KiB.
constexpr std::size_t kAheadBytes = 512 * 1024;
/// Of the order by index: enough that a worker has one whose reads are under way while it frames
/// another's.
constexpr std::size_t kLanesPerWriter = 4;
/// Records per delivery where nobody asked for batches.
constexpr std::size_t kInternalBatchRows = 32;

// Which rows are a rank's is told by the order: several of them keep it.
bool GivesOrderUp(const Program& program) {
  const bool slices = program.batch.rank.world_size > 1 && !program.batch.split_by_files;
  return (program.source.options.unordered && !slices) || program.source.streams.size() > 1;
}

/// What the consumer waits for is a batch: a sleep costs little beside that, and a poll as long as
/// two threads at work on a queue are worth took 3 % of all the processor's time.
std::int64_t DeliverySpinNanos() { return DefaultSpinNanos() == 0 ? 0 : 2000; }

/// How many of the stages the order by index has already: all that look into no record. But a
/// window behind kBlocks is left to the plan, where that can be: stripes are then read whole, not
/// record by record. It takes the order's beginning, all of its rows, and memory to hold a window.
std::size_t StagesByIndex(const Program& program, const RunStart& start,
                          const PlannedSource& planned, std::size_t memory_bytes) {
  const std::span<const OrderStage> stages = program.order_stages();
  const bool from_blocks = stages.size() > 1 && stages[0].kind == OrderStage::Kind::kBlocks;
  const bool all = start.mark.pass == 0 && start.mark.place == 0;
  if (!from_blocks || !all || program.batch.rank.world_size > 1) return stages.size();
  std::uint64_t held_rows = 0;
  for (const OrderStage& stage : stages) {
    if (stage.kind != OrderStage::Kind::kMultiPass) held_rows += stage.amount;
  }
  const bool fits = held_rows <= memory_bytes / 8 / planned.mean_record_bytes();
  return fits ? 1 : stages.size();
}

/// What is left to be done in the plan.
Program BehindOrder(Program program, std::size_t stages) {
  program.stages.erase(program.stages.begin(),
                       program.stages.begin() + static_cast<std::ptrdiff_t>(stages));
  return program;
}

/// What a pipeline reads, to those who ask who holds the memory.
std::string NameOf(const SourceNode& source) {
  const std::size_t files = source.names.size() + source.sources.size();
  std::string name = !source.names.empty()       ? source.names.front()
                     : !source.sources.empty()   ? source.sources.front()->name()
                     : !source.streams.empty()   ? "a stream"
                     : source.mix != nullptr     ? "a mixture"
                     : source.records != nullptr ? source.records->name()
                                                 : "a reader of the program's own";
  if (files > 1) name += " and " + std::to_string(files - 1) + " more";
  return name;
}

ParserJudge::Options JudgeOptions(const Program& program, const PlanMark& start) {
  const bool parses = program.parser != nullptr;
  ParserJudge::Options options;
  options.asked = parses && program.source.options.on_damage == OnDamage::kSkip;
  options.by_batches = parses && !program.parser->two_phase();
  options.from_beginning = start.pass == 0 && start.place == 0 && start.outputs == 0 &&
                           program.batch.rank.world_size == 1;
  return options;
}

int ThreadsFor(const OpenOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::min(kMaxThreads, CountCpus().usable);
}

}  // namespace

Run::Run(const Program& program, RewindInput rewind_input, std::shared_ptr<Arena> arena,
         const RunHooks& hooks, const RunStart& start, std::shared_ptr<PlannedSource> planned,
         ChainKeeps chain)
    : stages_by_index_(
          planned == nullptr
              ? 0
              : StagesByIndex(program, start, *planned,
                              MemoryBudget::LimitOf(program.source.options.arena_bytes, *arena))),
      program_(BehindOrder(program, stages_by_index_)),
      start_(start),
      planned_(std::move(planned)),
      rewind_input_(std::move(rewind_input)),
      ledger_(std::move(chain.ledger)),
      mappings_(std::move(chain.mappings)),
      unordered_(GivesOrderUp(program)),
      arena_(std::move(arena)),
      hooks_(hooks),
      late_wakes_(hooks.silence),
      pool_(PoolHooks()),
      out_(program.parser != nullptr ? kDeliveries : kRecordDeliveries, DeliverySpinNanos()),
      judge_(
          JudgeOptions(program_, start_.mark),
          [this](std::uint64_t number, Delivery delivery) {
            out_.Put(number, std::move(delivery));
          },
          [this](const auto& change) { out_.ChangeStatus(change); }),
      blocks_(arena_, [this] { At(RunPoint::kNewBlock); }) {
  const int threads = ThreadsFor(program_.source.options);
  for (int i = 0; i < threads; ++i) AddWorker(true);
  BuildLanes();
  ReserveMemory();
  CheckTables(program);
  BuildPlanner();
}

std::size_t Run::AheadBytes() const {
  return program_.source.options.io.in_flight_bytes / kLanesPerWriter;
}

void Run::ReserveMemory() {
  const OpenOptions& options = program_.source.options;
  budget_.emplace(arena_, options.arena_bytes, NameOf(program_.source));
  const std::size_t slab = arena_->slab_bytes();
  const std::size_t part = hold_credits_ ? PartBytes(options, slab) : options.stripe_bytes;
  credit_bytes_ = (part + part / 4 + slab - 1) / slab * slab;
  // By index a lane reads ahead of the block that it fills.
  const std::size_t ahead = chunks_ == nullptr ? 0 : AheadBytes() + UnitFetch::kPartBytes;
  budget_->Reserve(lanes_.size() * ((lane_credits_ + 2) * credit_bytes_ + ahead));
}

std::size_t Run::GrantBatches(std::size_t bytes) { return budget_->GrantBatches(bytes); }

std::size_t Run::BuildSchedule() {
  const SourceNode& source = program_.source;
  FileSchedule::Options options;
  options.cycle = source.options.cycle;
  options.stripe_bytes = source.options.stripe_bytes;
  options.passes = program_.passes;
  options.format = source.options.format;
  options.unordered = unordered_;
  options.by_file = source.file_readers != nullptr;
  options.order = source.options.files;
  options.first_epoch = source.options.first_epoch;
  options.moved = [this] { pool_.WakeAll(); };
  options.passed_over = News().read;
  schedule_ = std::make_unique<FileSchedule>(source.names, source.sources, options);
  return schedule_->lanes();
}

// Lanes that may block for long have threads of their own, which write no batches.
void Run::AddOwnThreads(std::size_t lanes) {
  for (std::size_t i = 0; i < lanes; ++i) AddWorker(false);
}

void Run::AddWorker(bool writes) {
  pool_.Add(writes);
  workers_.push_back(std::make_unique<Worker>(workers_.size()));
}

std::size_t Run::BuildChunks() {
  ChunkPlan::Options options;
  options.lanes = kLanesPerWriter * pool_.writers();
  options.rows_per_chunk = RowsPerChunk(planned_->mean_record_bytes());
  options.passes = planned_->passes(stages_by_index_);
  options.pass = start_.mark.pass;
  options.place = start_.mark.place;
  const Rank& rank = program_.batch.rank;
  if (rank.world_size > 1 && !program_.looks_into_records()) {
    options.slice = {program_.batch.size, static_cast<std::uint64_t>(rank.rank),
                     static_cast<std::uint64_t>(rank.world_size), program_.batch.drop_remainder,
                     program_.batch.pad};
  }
  chunks_ = std::make_unique<ChunkPlan>(planned_->NewCursor(start_.mix, stages_by_index_), options);
  const FileTable& table = *planned_->table();
  opened_files_ =
      std::make_unique<OpenedFiles>(planned_->table(), program_.source.options.io, News());
  for (std::size_t file = 0; file < table.files(); ++file) {
    if (table.FirstRow(file) == table.FirstRow(file + 1)) {
      ledger_->NoteFile(table.file(file).name, Ledger::FileFate::kRead);
    }
  }
  return options.lanes;
}

void Run::ShareBatches(BatchSink::Options* options) const {
  const auto ranks = static_cast<std::size_t>(program_.batch.rank.world_size);
  const auto rank = static_cast<std::size_t>(program_.batch.rank.rank);
  if (ranks == 1) return;
  const std::size_t rows = program_.batch.size / ranks;
  if (!program_.looks_into_records()) {
    options->rows = rows;  // the chunks have no others
    return;
  }
  options->slice_begin = rank * rows;
  options->slice_end = (rank + 1) * rows;
}

std::unique_ptr<Lane> Run::MakeLane(std::size_t number, LaneContext* context) {
  const SourceNode& source = program_.source;
  if (chunks_ != nullptr) {
    PlannedLane::Options options;
    options.index = number;
    options.ahead_bytes = AheadBytes();
    return std::make_unique<PlannedLane>(options, chunks_.get(), opened_files_.get(), context);
  }
  if (schedule_ != nullptr) {
    return std::make_unique<FileLane>(number, schedule_.get(), source, context, stop_.get_token(),
                                      News());
  }
  if (!source.streams.empty()) {
    const StreamInput& stream = source.streams[number];
    const bool several = source.streams.size() > 1;
    const bool skips = source.options.on_damage == OnDamage::kSkip;
    StreamLane::Ends ends;
    ends.outlived = (several && skips) || stream.reopen_limit > 0;
    ends.may_be_empty = several || stream.reopen_limit > 0;
    return std::make_unique<StreamLane>(stream, ends, context, stop_.get_token());
  }
  if (source.records != nullptr) {
    return std::make_unique<RecordLane>(source.records.get(), program_.passes, context,
                                        stop_.get_token());
  }
  const auto rewind = [this] {
    return (!rewind_input_ || rewind_input_()) && program_.source.instances->ReInit();
  };
  return std::make_unique<InstanceLane>(source.instances.get(), source.slots, program_.passes,
                                        rewind, stop_.get_token());
}

void Run::BuildLanes() {
  hold_credits_ = !program_.shuffled();
  constexpr std::size_t kCostlyRows = 64;  // a parser that asks for pieces this small costs much
  share_tasks_ = program_.parser != nullptr && program_.parser->max_rows_per_write() <= kCostlyRows;
  const SourceNode& source = program_.source;
  const std::size_t writers = pool_.writers();
  std::size_t count = std::max<std::size_t>(1, source.streams.size());
  if (planned_ != nullptr) {
    count = BuildChunks();
  } else if (!source.names.empty() || !source.sources.empty()) {
    count = BuildSchedule();
  } else {
    AddOwnThreads(count);
  }
  // Two stripes of every lane, in the parts that they come in, or more where lanes are fewer than
  // threads.
  const std::size_t stripe = source.options.stripe_bytes;
  const std::size_t parts =
      hold_credits_ ? stripe / PartBytes(source.options, arena_->slab_bytes()) + 1 : 1;
  if (hold_credits_ && program_.parser != nullptr && !unordered_) {
    read_ahead_.set_limit(kAheadBytes);
  }
  lane_credits_ = parts * std::max<std::size_t>(2, (2 * writers + count - 1) / count);
  for (std::size_t i = 0; i < workers_.size(); ++i) read_ahead_.AddWorker();
  for (std::size_t i = 0; i < count; ++i) {
    auto lane = std::make_unique<LaneState>(static_cast<std::uint32_t>(i), lane_credits_);
    const bool own_thread = schedule_ == nullptr && chunks_ == nullptr;
    Worker& worker = own_thread ? *workers_[writers + i] : *workers_[i % writers];
    lane->worker = static_cast<std::uint32_t>(worker.index);
    read_ahead_.AddLane(worker.index, static_cast<std::int64_t>(lane_credits_));
    worker.lanes.push_back(lane.get());
    worker.context.arena = arena_;  // lanes take it as they are made
    lane->lane = MakeLane(i, &worker.context);
    lanes_.push_back(std::move(lane));
  }
  share_tasks_ = share_tasks_ || count < writers;
}

// What a shuffle holds is bounded by the records there are; without their number by the arena, in
// which their bytes stand.
void Run::CheckTables(const Program& whole) const {
  constexpr std::uint64_t kBytesPerRow = 32;
  if (planned_ == nullptr) return;
  std::uint64_t rows = planned_->fingerprint().records;
  for (const Program::Stage& stage : whole.order_stages()) {
    if (stage.kind == Program::Stage::Kind::kMultiPass) {
      const bool endless = stage.amount == 0 || __builtin_mul_overflow(rows, stage.amount, &rows);
      if (endless) rows = ~std::uint64_t{0};
      continue;
    }
    const std::uint64_t held = std::min(stage.amount, rows);
    if (held <= arena_->bytes() / kBytesPerRow) continue;
    throw Error(Status(StatusCode::kResourceExhausted,
                       "a shuffle of " + std::to_string(held) + " records needs " +
                           std::to_string(held) + " times " + std::to_string(kBytesPerRow) +
                           " bytes for its tables alone, the pinned arena has " +
                           std::to_string(arena_->bytes()) +
                           "; lower the window, or raise the arena (RINGFEED_ARENA_BYTES)"));
  }
}

void Run::BuildPlanner() {
  Planner::Input input;
  input.program = &program_;
  input.stages_by_index = stages_by_index_;
  input.start = start_;
  input.planned = planned_.get();
  input.chunks = chunks_.get();
  input.schedule = schedule_.get();
  input.lanes = lanes_.size();
  input.unordered = unordered_;
  input.ledger = ledger_.get();
  input.judge = &judge_;
  input.stages = std::make_unique<PlanStages>(program_, start_.mark);
  input.stages->SetSink(MakeSink(input.stages->clock()));
  planner_.emplace(std::move(input), this);
}

std::unique_ptr<PlanSink> Run::MakeSink(PlanClock* clock) {
  const Program& program = program_;
  if (program.parser == nullptr) {
    return std::make_unique<RecordSink>(RecordSink::Options{start_.mark.outputs, clock}, this);
  }
  BatchSink::Options options;
  options.rows = program.batched ? program.batch.size : kInternalBatchRows;
  options.drop_remainder = program.batch.drop_remainder;
  options.close_at_block_end = !program.batched;
  options.whole_tensors = program.batched;
  options.slots = program.batch.slots;
  // One more to fill meanwhile, and one that is ready.
  if (program.held_batches > 0) options.least_slots = program.held_batches + 2;
  options.memory_bytes = budget_->limit() / 2;
  options.on_damage = program.source.options.on_damage;
  options.skip = start_.mark.outputs;
  options.pad = program.batch.pad;
  options.note_rows = program.source.options.note_records;
  options.refusals = judge_.of_batches();
  options.clock = clock;
  ShareBatches(&options);
  options.packer = program.packer.get();
  auto sink = std::make_unique<BatchSink>(options, program.parser.get(), arena_, this);
  batch_sink_ = sink.get();
  return sink;
}

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
  // What is handed out lives on in the arena, but the next run may plan with the rest.
  budget_->Release();
}

// ---- Workers ----

void Run::SetUp(Worker& worker) {
  At(RunPoint::kSetUp);
  {
    const std::lock_guard lock(worker.io_mutex);
    worker.io = std::make_unique<WorkerIo>(program_.source.options.io, arena_, hooks_.engines);
  }
  LaneContext& context = worker.context;
  context.options = &program_.source.options;
  context.check_elements = ElementCheckOf(program_.parser);
  context.io = worker.io.get();
  context.trim = program_.shuffled();
  context.written = program_.parser != nullptr;
  context.read_clock = &worker.read;
  context.decompress_clock = &worker.decompress;
  context.frame_clock = &worker.frame;
  context.read_bytes = &worker.read_bytes;
  if (program_.parser != nullptr) {
    worker.scratch.parser = program_.parser->NewScratch();
    worker.locate_scratch = program_.parser->NewScratch();
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
  if (DoTask(worker) || DoLane(worker)) return;
  Rest(worker);
}

void Run::WorkerMain(Worker& worker) {
  const WorkerStop stop(stop_.get_token());
  try {
    SetUp(worker);
  } catch (...) {
    // Without this worker its lanes stand still: nothing more comes, from now on.
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
  // It goes on with what it writes, for what is planned is good.
  for (LaneState* lane : worker.lanes) lane->done = true;
  {
    const std::lock_guard lock(status_mutex_);
    if (failure_.ok()) failure_ = status;
  }
  // Order: pairs with the acquire in WorkerFailure, for failure_.
  failed_.store(true, std::memory_order_release);
  RequestPlan(&worker);
}

bool Run::DoTask(Worker& worker) {
  WriteTask* task = nullptr;
  if (!pool_.TakeTask(worker.index, &task)) return false;
  const StageTimer timer(worker.write);
  FetchUpcoming(worker);
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
  return read_ahead_.MayBegin(lane.index, lane.lane->from_memory());
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

bool Run::DoLane(Worker& worker) {
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
  block->status = StatusOfThrown("a reader threw", StatusCode::kUserError);
  block->denied = IsRefusal(block->status);
}

void Run::LookInto(Worker& worker, Block* block) {
  for (const ContentStep& step : program_.content) {
    if (step.before_locate) step.before_locate(block);
  }
  if (program_.parser != nullptr && program_.parser->two_phase()) {
    const StageTimer timer(worker.frame);
    LocateRows(*program_.parser, worker.locate_scratch.get(), program_.source.options.on_damage,
               judge_.open(), block);
  }
  for (const ContentStep& step : program_.content) {
    if (step.after_locate) step.after_locate(block);
  }
  LoseShrunkRows(program_.source.options.on_damage, block);
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
  try {
    if (!lane.lane->Fill(block)) return false;
    LookInto(worker, block);
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
  (void)lane.out.TryPush(std::move(item));  // credits leave room for every block
  RequestPlan(&worker);
}

// How nobody sleeps for ever.
//
// A worker sleeps while HasWork is false, by the protocol of its Sleeper: who changes what HasWork
// looks at writes first, then calls Wake. Who changes it in the worker's own thread wakes nobody:
// that thread looks again before it rests (WorkerPool::IsCurrent).
//
//   HasWork looks at        made true by                       who then wakes
//   stop_                   Stop                               all workers
//   ended_                  End                                all workers
//   PlanTurn::IsAsked       AskForPlan: a slot, memory or      worker 0, and an idle one where
//                           room for a delivery came back      worker 0 is at work (WakeAny)
//   tasks, overflow_        Submit                             the writer that has the task, or
//                                                              WakeAny
//   ReadAhead::MayBegin     ReadAhead::GiveBack, MissDue       its worker, as they say
//   of a lane that fills a block:
//     nothing in flight     its own thread                     nobody
//     Lane::waits           FileSchedule::EndTurn              all workers (Options::moved), where
//                                                              a lane was told to wait
//
// done, filling, in_flight and from_memory are the worker's own. Without an order no lane is due,
// and nothing limits what is framed ahead but credits: a lane in whose turn all others wait, the
// last of a pass, must never be kept back by what its worker framed of the next one.
//
// The plan sleeps, too: where it returns without having used up what there is. What it waits for:
//
//   a block of the due lane   Publish, which runs the plan itself (RequestPlan)
//   a batch slot              ReleaseDelivery: AskForPlan
//   memory for a block        RecycleBlock, ReleaseDelivery and BatchDone: AskForPlan
//   room for a delivery       whoever takes one (Outbox): AskForPlan
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

void Run::Rest(Worker& worker) {
  const auto has_work = [&] { return HasWork(worker); };
  Sleeper& sleeper = pool_.sleeper(worker.index);
  if (worker.io->in_flight()) {
    const StageTimer timer(worker.wait_medium);
    sleeper.RestInEngine(has_work, [&](bool wait) {
      worker.io->Reap(wait ? Clock::time_point::max() : Clock::time_point());
    });
    return;
  }
  sleeper.Rest(has_work, [&](auto&& sleep) {
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
    planner_->GoOn();
    got_further = got_further || plan_steps_ != steps;
  });
  return got_further;
}

void Run::AskForPlan() {
  plan_turn_.Ask([this] {
    if (!pool_.IsAnyCurrent()) pool_.WakeAny(0);  // else it looks by itself
  });
}

// ---- PlannerHost ----

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
  if (!hold_credits_) GiveCredits(*lanes_[block.lane], block.credits, block.payload_bytes);
  budget_->NoteHeld(block.slab_bytes());
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
  out_.NoteOut();
  if (judge_.Take(number, &delivery)) return;
  out_.Put(number, std::move(delivery));
}

void Run::NoteSkipped(const RecordSpan& record, const Status& why) {
  ledger_->NoteSkipped(DamagedRecord(why, record), record.size);
}

void Run::NoteLeftOut(const PlanMark& behind) {
  const std::lock_guard lock(status_mutex_);
  left_out_ = behind;
}

std::optional<PlanMark> Run::left_out() const {
  const std::lock_guard lock(status_mutex_);
  return left_out_;
}

void Run::BatchDone() {
  // A plan that waits for a slot or for memory looks again: nothing else may come to wake it.
  if (!hold_credits_) AskForPlan();
}

bool Run::HasRoom(std::uint64_t number) { return out_.HasRoom(number); }

void Run::End(std::uint64_t number, const Status& given) {
  const Status status = planner_->CheckedEnd(given);
  out_.NoteEnd(number, status);
  judge_.NoteEnd(number);
  out_.Close(number);
  // What the lanes were still to read nobody wants. Order: pairs with the acquire in WorkOnce.
  ended_.store(true, std::memory_order_release);
  pool_.WakeAll();
}

Status Run::failure() const {
  const std::lock_guard lock(status_mutex_);
  return failure_;
}

Status Run::end_status() const { return out_.status(); }

// ---- Memory and deliveries ----

void Run::RecycleBlock(Block* block) {
  LaneState& lane = *lanes_[block->lane];
  const std::int32_t credits = block->credits;
  const std::size_t bytes = block->payload_bytes;
  budget_->NoteFreed(block->slab_bytes());
  blocks_.GiveBack(block);
  if (hold_credits_) {
    GiveCredits(lane, credits, bytes);
  } else {
    AskForPlan();  // the plan may wait for this memory
  }
}

void Run::GiveCredits(LaneState& lane, std::int32_t count, std::size_t bytes) {
  read_ahead_.GiveBack(lane.index, count, bytes,
                       [this](std::size_t worker) { pool_.Wake(worker); });
}

QueueResult Run::Next(Delivery* delivery, const std::stop_token& stop) {
  if (!stop.stop_possible()) return Await(delivery, kNoDeadline, stop_.get_token());
  std::stop_source either;
  const auto request = [&either] { either.request_stop(); };
  const std::stop_callback own(stop_.get_token(), request);
  const std::stop_callback other(stop, request);
  return Await(delivery, kNoDeadline, either.get_token());
}

QueueResult Run::NextUntil(Delivery* delivery, Deadline deadline) {
  return Await(delivery, deadline, stop_.get_token());
}

QueueResult Run::TryNext(Delivery* delivery) {
  return out_.Take(delivery, [this] { AskForPlan(); });
}

QueueResult Run::Await(Delivery* delivery, Deadline deadline, const std::stop_token& stop) {
  while (true) {
    const Deadline look = std::min(deadline, late_wakes_.NextLook());
    const QueueResult result = out_.TakeUntil(delivery, look, stop, [this] { AskForPlan(); });
    if (result != QueueResult::kTimeout) return result;
    late_wakes_.NoteSilence(out_.taken(), &pool_);
    if (NativeQueuePolicy::Expired(deadline)) return result;
  }
}

// ---- Who holds what ----

std::optional<std::uint64_t> Run::StarvedBy(std::thread::id thread) const {
  if (!holders_.AllAsk(thread)) return std::nullopt;
  const std::uint64_t wakes = pool_.wakes();
  if (plan_turn_.IsBusy()) return std::nullopt;
  // A stream's own thread may be in its source's call for as long as that likes. That matters where
  // it may come next.
  const std::size_t due = read_ahead_.WorkerOf(read_ahead_.due());
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const bool counts = unordered_ || pool_.TakesTasks(i) || i == due;
    if (counts && !pool_.sleeper(i).IsAtRest()) return std::nullopt;
  }
  return wakes;
}

std::shared_ptr<const void> Run::Lease(Delivery delivery) {
  struct Holder {
    Holder(std::shared_ptr<Run> its_run, Delivery its_delivery)
        : run(std::move(its_run)), delivery(std::move(its_delivery)) {
      run->holders_.NoteTaken(thread);
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
    const RecordDelivery& records = *delivery.records;
    if (records.block != nullptr) Drop(records.block, records.rows);
    for (const RowRef& ref : records.refs) Drop(ref.block, 1);
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
  totals.passes = planner_->passes_ended() - start_.mark.pass;
  totals.late_wakes = late_wakes();
  for (const auto& worker : workers_) totals.read_bytes += worker->read_bytes.count();
  if (batch_sink_ != nullptr) totals.grown_batches = batch_sink_->grown();
  return totals;
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
  StageStats plan{"plan", 0, 0, ""};
  StageStats write{"write", 0, 0, "a free batch slot"};
  StageStats idle{"idle", 0, 0, "earlier records, or room"};
  for (const auto& worker : workers_) {
    read.busy_s += worker->read.seconds();
    read.wait_s += worker->wait_medium.seconds();
    decompress.busy_s += worker->decompress.seconds();
    frame.busy_s += worker->frame.seconds();
    plan.busy_s += worker->plan.seconds();
    write.busy_s += worker->write.seconds();
    write.wait_s += worker->wait_slot.seconds();
    idle.wait_s += worker->wait_other.seconds();
  }
  stats->stages = {read, frame, plan, write, idle};
  if (decompress.busy_s > 0) stats->stages.insert(stats->stages.begin() + 1, decompress);
}

}  // namespace ringfeed
