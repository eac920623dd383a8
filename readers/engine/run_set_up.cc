// Sets up a run before its threads start: its lanes, their schedule or chunks, the memory that it
// begins with, the plan and its sink.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/machine/cpu_count.h"
#include "base/refuse.h"
#include "readers/engine/batches/record_sink.h"
#include "readers/engine/run.h"
#include "readers/engine/sources/indexed_lane.h"

namespace ringfeed {

namespace {

constexpr std::size_t kDeliveries = 2 * BatchSink::kMaxSlots;  // room for every slot at once
constexpr std::size_t kRecordDeliveries = 16;
constexpr int kMaxThreads = 16;
/// Payload that a worker frames at least before its turn in file order comes. One that works alone
/// frames no more: what is written later than that has left the cache of its core. Measured on
/// parts of 128 to 512 KiB.
constexpr std::size_t kAheadBytes = 512 * 1024;
/// For the order by index: enough that a worker has one lane with reads under way while it frames
/// another's.
constexpr std::size_t kLanesPerWriter = 4;
/// For reads into a device's memory: these have enough in flight, and each takes some of it.
constexpr std::size_t kMostDirectLanes = 16;
/// Records per delivery if the chain has no Batch.
constexpr std::size_t kInternalBatchRows = 32;
constexpr std::size_t kRowsPerDelivery = 1024;  ///< the same of records that are not parsed
/// What is taken ahead of a user's code, if it does not say: without batches so many records, or
/// instances that are delivered as they are, each perhaps a batch.
constexpr std::uint64_t kRecordsAhead = 64;
constexpr std::uint64_t kInstancesAhead = 4;
constexpr std::uint64_t kSlotsAhead = 4;  ///< of a Batch that does not say how many it has

// If several ranks share batches, the order says which rows are a rank's: they all keep it.
bool GivesOrderUp(const ExecutionPlan& plan) {
  const bool slices = plan.batch.rank.world_size > 1 && !plan.batch.split_by_files;
  return (plan.source.options.unordered && !slices) || plan.source.streams.size() > 1;
}

RingOptions DeliveryOptions(const ExecutionPlan& plan) {
  RingOptions options;
  // The consumer waits for a batch: a sleep costs little beside that. A poll as long as two threads
  // on a queue are worth took 3 % of all the processor's time.
  options.spin_ns = DefaultSpinNanos() == 0 ? 0 : 2000;
  // Small batches are collected in a nap, if there are slots for more than these.
  constexpr std::size_t kNapBatches = 8;
  options.nap_items = plan.batch.slots == 0 ? kNapBatches : plan.batch.slots / 4;
  return options;
}

/// How many of the stages the order by index has already: all that look into no record. But a
/// window after kStripes is left to the plan, if possible: stripes are then read whole, not record
/// by record. That takes the order's beginning, all of its rows, and memory to hold a window.
std::size_t StagesByIndex(const ExecutionPlan& plan, const RunStart& start,
                          const IndexedSource& indexed, std::size_t memory_bytes) {
  const std::span<const OrderStage> stages = plan.order_stages();
  const bool from_blocks = stages.size() > 1 && stages[0].kind == OrderStage::Kind::kStripes;
  const bool all = start.mark.pass == 0 && start.mark.place == 0;
  if (!from_blocks || !all || plan.batch.rank.world_size > 1) return stages.size();
  std::uint64_t held_rows = 0;
  for (const OrderStage& stage : stages) {
    if (stage.kind != OrderStage::Kind::kMultiPass) held_rows += stage.amount;
  }
  const bool fits = held_rows <= memory_bytes / 8 / indexed.mean_record_bytes();
  return fits ? 1 : stages.size();
}

/// What a lane may have at a time: two stripes, in the parts that they are read in, or more if
/// lanes are fewer than threads.
std::size_t PartsOfLane(const OpenOptions& options, const Arena& arena, bool in_parts,
                        std::size_t lanes, std::size_t writers) {
  const std::size_t parts =
      in_parts ? options.stripe_bytes / PartBytes(options, arena.slab_bytes()) + 1 : 1;
  return parts * std::max<std::size_t>(2, (2 * writers + lanes - 1) / lanes);
}

/// The part of the chain that is left for the plan.
ExecutionPlan BehindOrder(ExecutionPlan plan, std::size_t stages) {
  plan.stages.erase(plan.stages.begin(), plan.stages.begin() + static_cast<std::ptrdiff_t>(stages));
  return plan;
}

/// What a pipeline reads, for messages about the holders of memory.
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

ParserJudge::Options JudgeOptions(const ExecutionPlan& plan, const PlanPosition& start) {
  const bool parses = plan.parser != nullptr;
  ParserJudge::Options options;
  options.asked = parses && plan.source.options.on_damage == OnDamage::kSkip;
  options.by_batches = parses && !plan.parser->two_phase();
  options.from_beginning =
      start.pass == 0 && start.place == 0 && start.outputs == 0 && plan.batch.rank.world_size == 1;
  return options;
}

int ThreadsFor(const OpenOptions& options, int cpus) {
  return options.threads > 0 ? options.threads : std::min(kMaxThreads, cpus);
}

/// What a run needs of a device's memory that it reads into: its lanes hold nothing for a shuffle.
DirectRun::Reading DirectReading(const ExecutionPlan& plan, const Arena& arena, int cpus) {
  const OpenOptions& options = plan.source.options;
  const auto writers = static_cast<std::size_t>(ThreadsFor(options, cpus));
  DirectRun::Reading reading;
  reading.lanes = std::min(kLanesPerWriter * writers, kMostDirectLanes);
  const std::size_t part = PartBytes(options, arena.slab_bytes());
  const std::size_t parts = PartsOfLane(options, arena, true, reading.lanes, writers);
  reading.lane_bytes = (parts + 2) * (part + part / 4) +
                       options.io.in_flight_bytes / kLanesPerWriter + UnitFetch::kPartBytes;
  return reading;
}

}  // namespace

Run::Run(const ExecutionPlan& plan, RewindInput rewind_input, std::shared_ptr<Arena> arena,
         const RunHooks& hooks, const RunStart& start, std::shared_ptr<IndexedSource> indexed,
         ChainKeeps chain)
    : cpus_(CountCpus().usable),
      direct_(plan, indexed.get(), DirectReading(plan, *arena, cpus_)),
      stages_by_index_(indexed == nullptr ? 0
                       : direct_          ? plan.order_stages().size()
                                          : StagesByIndex(plan, start, *indexed,
                                                          MemoryBudget::LimitOf(
                                                              plan.source.options.arena_bytes, *arena))),
      plan_(BehindOrder(plan, stages_by_index_)),
      // A writer can take no part of the sums of what is in a device's memory.
      why_sums_are_early_(direct_ ? "what is read into the device's memory has none"
                                  : plan_.WhySumsAreEarly()),
      leaves_sums_(why_sums_are_early_.empty() ||
                   (!direct_ && !plan_.left_fields.any() && plan_.WhySumsAreFramed().empty())),
      start_(start),
      indexed_(std::move(indexed)),
      rewind_input_(std::move(rewind_input)),
      ledger_(std::move(chain.ledger)),
      mappings_(std::move(chain.mappings)),
      cache_room_(std::move(chain.cache_room)),
      read_before_(chain.read_before),
      unordered_(GivesOrderUp(plan)),
      arena_(std::move(arena)),
      read_arena_(direct_ ? direct_.memory() : arena_),
      hooks_(hooks),
      late_wakes_(hooks.silence),
      pool_(PoolHooks()),
      out_(plan.parser != nullptr ? kDeliveries : kRecordDeliveries, DeliveryOptions(plan)),
      judge_(
          JudgeOptions(plan_, start_.mark),
          [this](std::uint64_t number, Delivery delivery) {
            out_.Put(number, std::move(delivery));
          },
          [this](const auto& change) { out_.ChangeStatus(change); }),
      blocks_(read_arena_, [this] { At(RunPoint::kNewBlock); }) {
  const int threads = ThreadsFor(plan_.source.options, cpus_);
  for (int i = 0; i < threads; ++i) AddWorker(true);
  BuildLanes();
  CheckTables(plan);
  BuildPlanner();
}

std::size_t Run::AheadBytes() const {
  return plan_.source.options.io.in_flight_bytes / kLanesPerWriter;
}

std::size_t Run::FramedAheadBytes() const {
  if (pool_.writers() == 1) return kAheadBytes;
  // A whole turn each. With less, the rest of a turn was framed in that turn, while all others
  // waited: on 16 cores 8 threads did the work of two.
  if (chunks_ == nullptr) return std::max(kAheadBytes, plan_.source.options.stripe_bytes);
  const std::size_t record_bytes = indexed_->mean_record_bytes();
  return std::max(kAheadBytes, RowsPerChunk(record_bytes) * record_bytes);
}

void Run::SetCredits(std::size_t lanes, std::size_t stripe_bytes) {
  OpenOptions options = plan_.source.options;
  options.stripe_bytes = stripe_bytes;
  const std::size_t slab = arena_->slab_bytes();
  const std::size_t part = hold_credits_ ? PartBytes(options, slab) : options.stripe_bytes;
  const std::size_t part_memory = (part + part / 4 + slab - 1) / slab * slab;
  // What is in memory already comes in smaller parts, and has a credit for each. If a part took one
  // of either kind, a lane could not frame all of its turn before all others waited for it.
  const bool reads_files = schedule_ != nullptr || chunks_ != nullptr;
  part_credits_ = reads_files ? std::max<std::size_t>(1, part / kMemoryPartBytes) : 1;
  credit_bytes_ = (part_memory + part_credits_ - 1) / part_credits_;
  const std::size_t parts = PartsOfLane(options, *arena_, hold_credits_, lanes, pool_.writers());
  lane_credits_ = (parts - 1) * part_credits_ + 1;  // one is enough to begin a part
}

std::size_t Run::ReadingBytes(std::size_t lanes) const {
  if (direct_) return 0;
  // By index a lane reads ahead of the block that it fills.
  const std::size_t ahead = chunks_ == nullptr ? 0 : AheadBytes() + UnitFetch::kPartBytes;
  // All of the part that began with the last credit, and two more.
  const std::size_t credits = lane_credits_ - 1 + 3 * part_credits_;
  std::size_t bytes = 0;
  const bool wraps = __builtin_mul_overflow(credits, credit_bytes_, &bytes) ||
                     __builtin_mul_overflow(bytes + ahead, lanes, &bytes);
  return wraps ? std::numeric_limits<std::size_t>::max() / 2 : bytes;
}

void Run::ReserveMemory(std::size_t lanes) {
  budget_.emplace(arena_, plan_.source.options.arena_bytes, NameOf(plan_.source));
  SetCredits(lanes, plan_.source.options.stripe_bytes);
  if (budget_->TryReserve(ReadingBytes(lanes))) return;
  if (schedule_ != nullptr) SetCredits(lanes, schedule_->LongestStripe());
  budget_->Reserve(ReadingBytes(lanes));
}

std::size_t Run::BuildSchedule() {
  const SourceNode& source = plan_.source;
  FileSchedule::Options options;
  options.cycle = source.options.cycle;
  options.stripe_bytes = source.options.stripe_bytes;
  options.passes = plan_.passes;
  options.format = source.options.format;
  options.unordered = unordered_;
  options.by_file = source.file_readers != nullptr;
  options.order = source.options.files;
  options.first_epoch = source.options.first_epoch;
  options.moved = [this] { pool_.WakeAll(); };
  options.passed_over = [ledger = ledger_](const std::string& name) { ledger->NoteEmpty(name); };
  schedule_ = std::make_unique<FileSchedule>(source.names, source.sources, options);
  return schedule_->lanes();
}

TakenAhead::Limits Run::AheadLimits() const {
  const OpenOptions& options = plan_.source.options;
  TakenAhead::Limits limits;
  limits.handed_out_later = !plan_.batched;
  if (options.ahead_records != 0) limits.records = options.ahead_records;
  if (options.ahead_bytes != 0) limits.bytes = options.ahead_bytes;
  if (limits.records != TakenAhead::kNoLimit || limits.bytes != TakenAhead::kNoLimit) return limits;
  if (!plan_.source.generated) return limits;
  if (!plan_.batched) {
    const std::uint64_t instances = plan_.buffered == 0 ? kInstancesAhead : plan_.buffered;
    limits.records = plan_.passes_instances() ? instances : kRecordsAhead;
    return limits;
  }
  const std::uint64_t slots = plan_.batch.slots == 0 ? kSlotsAhead : plan_.batch.slots;
  limits.records = (slots - 1) * plan_.batch.size;
  // A batch's number of rows is not known there. If the limit holds a lane back, at least one
  // batch is complete.
  if (plan_.looks_into_records()) limits.records = std::min(limits.records, kRecordsAhead);
  return limits;
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
  if (direct_) options.lanes = std::min(options.lanes, kMostDirectLanes);
  options.rows_per_chunk = RowsPerChunk(indexed_->mean_record_bytes());
  options.passes = indexed_->passes(stages_by_index_);
  if (plan_.source.mix == nullptr && options.passes == 1) {
    // A lane without a chunk would have memory set aside for nothing.
    const std::uint64_t chunks = indexed_->fingerprint().records / options.rows_per_chunk + 1;
    options.lanes = static_cast<std::size_t>(std::min<std::uint64_t>(options.lanes, chunks));
  }
  options.pass = start_.mark.pass;
  options.place = start_.mark.place;
  options.other_files = indexed_->HasOtherFilesInEachPass();
  const Rank& rank = plan_.batch.rank;
  if (rank.world_size > 1 && !plan_.looks_into_records()) {
    options.slice = {plan_.batch.size, static_cast<std::uint64_t>(rank.rank),
                     static_cast<std::uint64_t>(rank.world_size), plan_.batch.drop_remainder,
                     plan_.batch.pad};
  }
  chunks_ = std::make_unique<ChunkPlan>(indexed_->NewCursor(start_.mix, stages_by_index_), options);
  const FileTable& table = *indexed_->table();
  opened_files_ = std::make_unique<OpenedFiles>(indexed_->table(), plan_.source.options.io, News(),
                                                Rereads(options.passes), 0, direct_.reads());
  for (std::size_t file = 0; file < table.files(); ++file) {
    if (table.FirstRow(file) == table.FirstRow(file + 1)) {
      ledger_->NoteFile(table.file(file).name, Ledger::FileFate::kRead);
    }
  }
  return options.lanes;
}

void Run::ShareBatches(BatchSink::Options* options) const {
  const auto ranks = static_cast<std::size_t>(plan_.batch.rank.world_size);
  const auto rank = static_cast<std::size_t>(plan_.batch.rank.rank);
  if (ranks == 1) return;
  const std::size_t rows = plan_.batch.size / ranks;
  if (!plan_.looks_into_records()) {
    options->rows = rows;  // the chunks have no others
    return;
  }
  options->slice_begin = rank * rows;
  options->slice_end = (rank + 1) * rows;
}

FileRereads Run::Rereads(std::uint64_t passes) const {
  FileRereads rereads;
  rereads.room = cache_room_;
  rereads.passes = passes == 0 ? 0 : passes - std::min(start_.mark.pass, passes - 1);
  rereads.read_before = read_before_;
  if (plan_.batch.split_by_files) {
    rereads.ranks = static_cast<std::size_t>(plan_.batch.rank.world_size);
  }
  return rereads;
}

std::unique_ptr<Lane> Run::MakeLane(std::size_t number, LaneContext* context) {
  const SourceNode& source = plan_.source;
  if (chunks_ != nullptr) {
    IndexedLane::Options options;
    options.index = number;
    options.ahead_bytes = AheadBytes();
    return std::make_unique<IndexedLane>(options, chunks_.get(), opened_files_.get(), context);
  }
  if (schedule_ != nullptr) {
    return std::make_unique<FileLane>(number, schedule_.get(), source, context, stop_.get_token(),
                                      News(), Rereads(plan_.passes));
  }
  if (!source.streams.empty()) {
    const StreamInput& stream = source.streams[number];
    const bool several = source.streams.size() > 1;
    const bool skips = source.options.on_damage == OnDamage::kSkip;
    StreamLane::Ends ends;
    ends.outlived = (several && skips) || stream.reopens();
    ends.may_be_empty = several || stream.reopens();
    return std::make_unique<StreamLane>(stream, static_cast<std::uint32_t>(number), ends, context,
                                        stop_.get_token());
  }
  AskForRoom room;
  if (taken_ahead_.limited()) {
    room = [this] {
      const TakenAhead::Amount amount = taken_ahead_.Room();
      return LaneRoom{amount.records, amount.bytes};
    };
  }
  if (source.records != nullptr) {
    return std::make_unique<RecordLane>(source.records.get(), plan_.passes, context,
                                        stop_.get_token(), std::move(room));
  }
  const auto rewind = [this] {
    return (!rewind_input_ || rewind_input_()) && plan_.source.instances->ReInit();
  };
  return std::make_unique<InstanceLane>(source.instances.get(), source.slots, plan_.passes, context,
                                        rewind, stop_.get_token(), std::move(room));
}

void Run::BuildLanes() {
  hold_credits_ = !plan_.shuffled();
  constexpr std::size_t kCostlyRows = 64;  // a parser that asks for pieces this small costs much
  share_tasks_ = plan_.parser != nullptr && plan_.parser->max_rows_per_write() <= kCostlyRows;
  const SourceNode& source = plan_.source;
  const std::size_t writers = pool_.writers();
  std::size_t count = std::max<std::size_t>(1, source.streams.size());
  if (indexed_ != nullptr) {
    count = BuildChunks();
  } else if (!source.names.empty() || !source.sources.empty()) {
    count = BuildSchedule();
  } else {
    taken_ahead_.set_limits(AheadLimits());
    AddOwnThreads(count);
  }
  if (hold_credits_ && plan_.parser != nullptr && !unordered_) {
    read_ahead_.set_limit(FramedAheadBytes());
  }
  ReserveMemory(count);
  for (std::size_t i = 0; i < workers_.size(); ++i) read_ahead_.AddWorker();
  for (std::size_t i = 0; i < count; ++i) {
    auto lane = std::make_unique<LaneState>(static_cast<std::uint32_t>(i), lane_credits_);
    const bool own_thread = schedule_ == nullptr && chunks_ == nullptr;
    Worker& worker = own_thread ? *workers_[writers + i] : *workers_[i % writers];
    lane->worker = static_cast<std::uint32_t>(worker.index);
    read_ahead_.AddLane(worker.index, static_cast<std::int64_t>(lane_credits_));
    worker.lanes.push_back(lane.get());
    worker.context.arena = read_arena_;  // lanes take it as they are made
    worker.context.direct = direct_.reads().get();
    lane->lane = MakeLane(i, &worker.context);
    lanes_.push_back(std::move(lane));
  }
  share_tasks_ = share_tasks_ || count < writers;
}

// The number of records bounds what a shuffle holds; if it is not known, the arena does, which
// holds their bytes.
void Run::CheckTables(const ExecutionPlan& whole) const {
  constexpr std::uint64_t kBytesPerRow = 32;
  if (indexed_ == nullptr) return;
  std::uint64_t rows = indexed_->fingerprint().records;
  for (const ExecutionPlan::Stage& stage : whole.order_stages()) {
    if (stage.kind == ExecutionPlan::Stage::Kind::kMultiPass) {
      const bool endless = stage.amount == 0 || __builtin_mul_overflow(rows, stage.amount, &rows);
      if (endless) rows = ~std::uint64_t{0};
      continue;
    }
    const std::uint64_t held = std::min(stage.amount, rows);
    if (held <= arena_->bytes() / kBytesPerRow) continue;
    Refuse(StatusCode::kResourceExhausted,
           "a shuffle of " + std::to_string(held) + " records needs " + std::to_string(held) +
               " times " + std::to_string(kBytesPerRow) +
               " bytes for its tables alone, the pinned arena has " +
               std::to_string(arena_->bytes()) +
               "; lower the window, or raise the arena (RINGFEED_ARENA_BYTES)");
  }
}

void Run::BuildPlanner() {
  Planner::Input input;
  input.plan = &plan_;
  input.stages_by_index = stages_by_index_;
  input.start = start_;
  input.indexed = indexed_.get();
  input.chunks = chunks_.get();
  input.schedule = schedule_.get();
  input.lanes = lanes_.size();
  input.unordered = unordered_;
  input.ledger = ledger_.get();
  input.judge = &judge_;
  input.stages = std::make_unique<PlanStages>(plan_, start_.mark);
  const bool holds_rows = input.stages->failure_stage() != nullptr;
  input.stages->SetSink(MakeSink(input.stages->clock(), holds_rows));
  planner_.emplace(std::move(input), this);
}

// So that some deliveries are complete, and others made, within what may be taken ahead.
std::size_t Run::SmallDelivery() const {
  return static_cast<std::size_t>(taken_ahead_.MostRoom().records);
}

std::unique_ptr<PlanSink> Run::MakeSink(PlanClock* clock, bool holds_rows) {
  const ExecutionPlan& plan = plan_;
  const std::size_t small = SmallDelivery();
  if (plan.parser == nullptr) {
    RecordSink::Options options;
    options.skip_rows = start_.mark.outputs;
    options.clock = clock;
    options.rows_per_delivery = std::min(kRowsPerDelivery, small);
    options.count_bytes = taken_ahead_.counts_bytes();
    options.count_payload = holds_rows;
    return std::make_unique<RecordSink>(options, this);
  }
  BatchSink::Options options;
  options.count_bytes = taken_ahead_.counts_bytes();
  options.rows = plan.batched ? plan.batch.size : std::min(kInternalBatchRows, small);
  options.drop_remainder = plan.batch.drop_remainder;
  options.close_at_block_end = !plan.batched;
  options.whole_tensors = plan.batched;
  options.slots = plan.batch.slots;
  // One more to fill meanwhile, and one that is ready.
  if (plan.held_batches > 0) options.least_slots = plan.held_batches + 2;
  options.memory_bytes = budget_->limit() / 2;
  options.on_damage = plan.source.options.on_damage;
  options.skip = start_.mark.outputs;
  options.pad = plan.batch.pad;
  options.note_rows = plan.source.options.note_records;
  options.refusals = judge_.of_batches();
  options.clock = clock;
  ShareBatches(&options);
  options.packer = plan.packer.get();
  options.left_fields = direct_ ? LeftFieldRules{1, 1, false} : plan.left_fields;
  options.left_fields.leaves_sums = why_sums_are_early_.empty();
  options.late_sums = leaves_sums_;
  options.count_payload = leaves_sums_ || holds_rows;
  auto sink = std::make_unique<BatchSink>(options, plan.parser.get(), arena_, this);
  batch_sink_ = sink.get();
  return sink;
}

}  // namespace ringfeed
