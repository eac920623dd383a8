#include "readers/engine/run_builder.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/machine/cpu_count.h"
#include "base/refuse.h"
#include "readers/engine/batches/record_sink.h"
#include "readers/engine/run_worker.h"
#include "readers/engine/sources/indexed_lane.h"
#include "readers/engine/sources/lane.h"
#include "readers/order/place_chunks.h"
#include "readers/order/share_chunks.h"

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
/// The most ranges of stores that a worker has in flight (InFlightRule::kMost).
constexpr std::size_t kMostStoreRanges = 64;
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
  const bool slices = (plan.batch.rank.world_size > 1 && !plan.batch.split_by_files) || plan.shares;
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
  const std::vector<OrderStage>& stages = plan.stages;
  const bool from_blocks = stages.size() > 1 && stages[0].kind == OrderStage::Kind::kStripes;
  const bool all = start.mark.pass == 0 && start.mark.place == 0;
  const bool shared = plan.batch.rank.world_size > 1 || plan.shares;
  if (!from_blocks || !all || shared) return stages.size();
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
  const std::size_t files = source.names.size();
  std::string name = !source.names.empty()       ? source.names.front()
                     : !source.streams.empty()   ? "a stream"
                     : source.mix != nullptr     ? "a mixture"
                     : source.records != nullptr ? source.records->name()
                                                 : "a reader of the program's own";
  if (files > 1) name += " and " + std::to_string(files - 1) + " more";
  return name;
}

ParserJudge::Options JudgeOptions(const ExecutionPlan& plan, const RunStart& run) {
  const PlanPosition& start = run.mark;
  const bool parses = plan.parser != nullptr;
  ParserJudge::Options options;
  options.asked = parses && plan.source.options.on_damage == OnDamage::kSkip;
  options.by_batches = parses && !plan.parser->two_phase();
  options.from_beginning =
      start == PlanPosition{} && run.leave_out == 0 && plan.batch.rank.world_size == 1;
  return options;
}

int ThreadsFor(const OpenOptions& options, int cpus) {
  return options.threads > 0 ? options.threads : std::min(kMaxThreads, cpus);
}

std::size_t StagesByIndexOf(const RunInput& input, bool is_direct) {
  if (input.indexed == nullptr) return 0;
  if (is_direct) return input.plan.stages.size();
  const std::size_t limit =
      MemoryBudget::LimitOf(input.plan.source.options.arena_bytes, *input.arena);
  return StagesByIndex(input.plan, input.start, *input.indexed, limit);
}

RunMemory::Options MemoryOptions(const RunParts& parts, DirectRun* direct) {
  const OpenOptions& options = parts.plan.source.options;
  RunMemory::Options memory;
  memory.arena = parts.arena;
  memory.block_arena = *direct ? direct->memory() : parts.arena;
  memory.asked_bytes = options.arena_bytes;
  memory.name = NameOf(parts.plan.source);
  memory.holds_blocks = parts.plan.shuffled();
  memory.device_limit = direct->keep_limit();
  if (parts.plan.left_fields.any() && !*direct) {
    // The rows that batches leave may be in blocks that have other rows, too, and each worker
    // frames a turn before any row of it is written: a quarter more, for the bytes between records.
    const auto writers = static_cast<std::size_t>(ThreadsFor(options, parts.cpus));
    memory.kept_bytes = writers * options.stripe_bytes / 4 * 5;
  }
  return memory;
}

LateSums::Options SumOptions(const ExecutionPlan& plan, std::size_t long_payload_bytes,
                             bool is_direct) {
  LateSums::Options options;
  // A writer can take no part of the sums of what is in a device's memory.
  options.why_early =
      is_direct ? "what is read into the device's memory has none" : plan.WhySumsAreEarly();
  const LeftFieldRules& left = plan.left_fields;
  if (left.any()) options.taker_bytes = std::min(left.least_bytes, left.least_neighbour_bytes);
  options.only_cold = left.only_cold;
  options.leaves =
      options.why_early.empty() || (!is_direct && !left.any() && plan.WhySumsAreFramed().empty());
  options.least_bytes = long_payload_bytes;
  return options;
}

Deliveries::Options DeliveriesOf(const ExecutionPlan& plan, const RunStart& start) {
  Deliveries::Options options;
  options.capacity = plan.parser != nullptr ? kDeliveries : kRecordDeliveries;
  options.ring = DeliveryOptions(plan);
  options.judge = JudgeOptions(plan, start);
  return options;
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

RunParts::RunParts(RunInput input, const Run* its_run)
    : run(its_run),
      cpus(CountCpus().usable),
      direct(input.plan, input.indexed.get(), DirectReading(input.plan, *input.arena, cpus)),
      stages_by_index(StagesByIndexOf(input, static_cast<bool>(direct))),
      plan(BehindOrder(input.plan, stages_by_index)),
      start(input.start),
      indexed(std::move(input.indexed)),
      rewind_input(std::move(input.rewind_input)),
      chain(std::move(input.chain)),
      options(std::move(input.options)),
      unordered(GivesOrderUp(input.plan)),
      arena(std::move(input.arena)),
      workers([this](std::size_t number) { threads[number]->WakeIo(); }),
      plan_requests(&workers),
      source(&workers),
      tasks(&workers, &read_ahead),
      ready(&workers, &read_ahead),
      memory(MemoryOptions(*this, &direct), &workers, &read_ahead, &plan_requests),
      sums(SumOptions(plan, options.long_payload_bytes, static_cast<bool>(direct))),
      stalls(&workers, &plan_requests, &read_ahead, unordered, options.silence),
      deliveries(DeliveriesOf(plan, start), {&workers, &plan_requests, &source, &stalls}) {
  RunBuilder(this).Build(input.plan);
}

RunParts::~RunParts() = default;

void RunBuilder::Build(const ExecutionPlan& whole) {
  const int threads = ThreadsFor(plan_.source.options, parts_.cpus);
  for (int i = 0; i < threads; ++i) AddWorker(true);
  BuildLanes();
  CheckTables(whole);
  BuildPlanner();
}

std::size_t RunBuilder::AheadBytes() const {
  return plan_.source.options.io.in_flight_bytes / kLanesPerWriter;
}

std::size_t RunBuilder::FramedAheadBytes() const {
  if (parts_.workers.writers() == 1) return kAheadBytes;
  // A whole turn each. With less, the rest of a turn was framed in that turn, while all others
  // waited: on 16 cores 8 threads did the work of two.
  if (parts_.chunks == nullptr) return std::max(kAheadBytes, plan_.source.options.stripe_bytes);
  const std::size_t record_bytes = parts_.indexed->mean_record_bytes();
  return std::max(kAheadBytes, RowsPerChunk(record_bytes) * record_bytes);
}

void RunBuilder::SetCredits(std::size_t lanes, std::size_t stripe_bytes) {
  OpenOptions options = plan_.source.options;
  options.stripe_bytes = stripe_bytes;
  const std::size_t slab = parts_.arena->slab_bytes();
  const std::size_t part = holds_credits_ ? PartBytes(options, slab) : options.stripe_bytes;
  const std::size_t part_memory = (part + part / 4 + slab - 1) / slab * slab;
  // What is in memory already comes in smaller parts, and has a credit for each. If a part took one
  // of either kind, a lane could not frame all of its turn before all others waited for it.
  const bool reads_files = parts_.schedule != nullptr || parts_.chunks != nullptr;
  part_credits_ = reads_files ? std::max<std::size_t>(1, part / kMemoryPartBytes) : 1;
  credit_bytes_ = (part_memory + part_credits_ - 1) / part_credits_;
  const std::size_t parts =
      PartsOfLane(options, *parts_.arena, holds_credits_, lanes, parts_.workers.writers());
  lane_credits_ = (parts - 1) * part_credits_ + 1;  // one is enough to begin a part
}

std::size_t RunBuilder::ReadingBytes(std::size_t lanes) const {
  if (parts_.direct) return 0;
  // By index a lane reads ahead of the block that it fills.
  const std::size_t ahead = store_ahead_.lane_bytes +
                            (parts_.chunks == nullptr ? 0 : AheadBytes() + UnitFetch::kPartBytes);
  // All of the part that began with the last credit, and two more.
  const std::size_t credits = lane_credits_ - 1 + 3 * part_credits_;
  std::size_t bytes = 0;
  const bool wraps = __builtin_mul_overflow(credits, credit_bytes_, &bytes) ||
                     __builtin_mul_overflow(bytes + ahead, lanes, &bytes);
  return wraps ? std::numeric_limits<std::size_t>::max() / 2 : bytes;
}

// How many ranges fill a link is found while they are read. The memory for the most of them is the
// lanes' own, so that none holds what another one needs; it is at most an eighth of the chain's.
StoreAhead RunBuilder::StoreAheadOf(std::size_t lanes) const {
  const bool reads_files = parts_.schedule != nullptr || parts_.chunks != nullptr;
  if (parts_.direct || !reads_files || !ReadsStores(plan_.source)) return {};
  const std::size_t writers = parts_.workers.writers();
  StoreAhead ahead;
  ahead.lanes = (lanes + writers - 1) / writers;
  const std::size_t stripe = plan_.source.options.stripe_bytes + kStripeRoomBytes;
  const std::size_t wanted = (kMostStoreRanges + ahead.lanes - 1) / ahead.lanes * stripe;
  ahead.lane_bytes = std::min(wanted, parts_.memory.budget().limit() / 8 / lanes);
  return ahead;
}

void RunBuilder::ReserveMemory(std::size_t lanes) {
  MemoryBudget& budget = parts_.memory.budget();
  SetCredits(lanes, plan_.source.options.stripe_bytes);
  store_ahead_ = StoreAheadOf(lanes);
  const std::size_t reading = ReadingBytes(lanes);
  const bool all_fits = reading + reading / 2 <= budget.limit() && budget.TryReserve(reading);
  if (!all_fits) store_ahead_.lane_bytes = 0;
  if (!all_fits && !budget.TryReserve(ReadingBytes(lanes))) {
    if (parts_.schedule != nullptr) SetCredits(lanes, parts_.schedule->LongestStripe());
    budget.Reserve(ReadingBytes(lanes));
  }
  parts_.memory.set_credit_bytes(credit_bytes_);
}

std::size_t RunBuilder::BuildSchedule() {
  const SourceNode& source = plan_.source;
  FileSchedule::Options options;
  options.cycle = source.options.cycle;
  options.stripe_bytes = source.options.stripe_bytes;
  options.passes = plan_.passes;
  options.format = source.options.format;
  options.unordered = parts_.unordered;
  options.by_file = source.file_readers != nullptr;
  options.index = IndexOptionsOf(source);
  options.order = source.options.files;
  options.first_epoch = source.options.first_epoch;
  options.moved = [workers = &parts_.workers] { workers->WakeAll(); };
  options.passed_over = [ledger = parts_.chain.ledger](const std::string& name) {
    ledger->NoteEmpty(name);
  };
  parts_.schedule = std::make_unique<FileSchedule>(source.names, source.sources, options);
  return parts_.schedule->lanes();
}

TakenAhead::Limits RunBuilder::AheadLimits() const {
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
void RunBuilder::AddOwnThreads(std::size_t lanes) {
  for (std::size_t i = 0; i < lanes; ++i) AddWorker(false);
}

void RunBuilder::AddWorker(bool writes) {
  parts_.workers.Add(writes);
  parts_.threads.push_back(std::make_unique<RunWorker>(parts_.threads.size(), &parts_));
}

std::size_t RunBuilder::BuildChunks() {
  std::size_t lanes = kLanesPerWriter * parts_.workers.writers();
  if (parts_.direct) lanes = std::min(lanes, kMostDirectLanes);
  const std::uint64_t passes = parts_.indexed->passes(parts_.stages_by_index);
  if (plan_.source.mix == nullptr && passes == 1) {
    // A lane without a chunk would have memory set aside for nothing.
    const std::uint64_t rows = RowsPerChunk(parts_.indexed->mean_record_bytes());
    const std::uint64_t chunks = parts_.indexed->fingerprint().records / rows + 1;
    lanes = static_cast<std::size_t>(std::min<std::uint64_t>(lanes, chunks));
  }
  parts_.chunks = std::make_unique<ChunkPlan>(
      lanes, parts_.indexed->NewChunks(parts_.start, parts_.stages_by_index,
                                       RowsPerChunk(parts_.indexed->mean_record_bytes())));
  const FileTable& table = *parts_.indexed->table();
  parts_.opened_files =
      std::make_unique<OpenedFiles>(parts_.indexed->table(), plan_.source.options.io, News(),
                                    Rereads(passes), 0, parts_.direct.reads());
  for (std::size_t file = 0; file < table.files(); ++file) {
    if (table.FirstRow(file) == table.FirstRow(file + 1)) {
      parts_.chain.ledger->NoteFile(table.file(file).name, Ledger::FileFate::kRead);
    }
  }
  return lanes;
}

void RunBuilder::ShareBatches(BatchSink::Options* options) const {
  if (!plan_.batched) return;
  if (plan_.shares || !plan_.looks_into_records()) {
    options->rows = plan_.RowsOfRank();  // the chunks have no others
    return;
  }
  if (plan_.batch.rank.world_size == 1) return;
  const BatchSlice slice = plan_.SliceOfRank();
  options->slice_begin = static_cast<std::size_t>(slice.begin());
  options->slice_end = static_cast<std::size_t>(slice.end());
}

FileNews RunBuilder::News() const {
  FileNews news;
  news.opened = [ledger = parts_.chain.ledger,
                 mappings = parts_.chain.mappings](const InputFile& file) {
    mappings->Note(file);
    ledger->NoteOpened(file.choice());
  };
  news.read = [ledger = parts_.chain.ledger](const std::string& name) {
    ledger->NoteFile(name, Ledger::FileFate::kRead);
  };
  news.failed = [ledger = parts_.chain.ledger](const std::string& name, const Status& why) {
    ledger->NoteFile(name, why);
  };
  return news;
}

FileRereads RunBuilder::Rereads(std::uint64_t passes) const {
  FileRereads rereads;
  rereads.room = parts_.chain.cache_room;
  rereads.passes = passes == 0 ? 0 : passes - std::min(parts_.start.mark.pass, passes - 1);
  rereads.read_before = parts_.chain.read_before;
  // Whole files are not worth loading if most of each is left out.
  if (parts_.indexed != nullptr && parts_.indexed->leaves_rows_out())
    rereads = {.room = rereads.room};
  if (plan_.batch.split_by_files) {
    rereads.ranks = static_cast<std::size_t>(plan_.batch.rank.world_size);
  }
  return rereads;
}

std::unique_ptr<Lane> RunBuilder::MakeLane(std::size_t number, LaneContext* context) {
  const SourceNode& source = plan_.source;
  if (parts_.chunks != nullptr) {
    IndexedLane::Options options;
    options.index = number;
    options.ahead_bytes = AheadBytes();
    return std::make_unique<IndexedLane>(options, parts_.chunks.get(), parts_.opened_files.get(),
                                         context);
  }
  if (parts_.schedule != nullptr) {
    return std::make_unique<FileLane>(number, parts_.schedule.get(), source, context,
                                      parts_.stop.get_token(), News(), Rereads(plan_.passes));
  }
  if (!source.streams.empty()) {
    const StreamInput& stream = source.streams[number];
    const bool several = source.streams.size() > 1;
    const bool skips = source.options.on_damage == OnDamage::kSkip;
    StreamLane::Ends ends;
    ends.outlived = (several && skips) || stream.reopens();
    ends.may_be_empty = several || stream.reopens();
    return std::make_unique<StreamLane>(stream, static_cast<std::uint32_t>(number), ends, context,
                                        parts_.stop.get_token());
  }
  AskForRoom room;
  if (parts_.source.ahead().limited()) {
    room = [limit = &parts_.source] {
      const TakenAhead::Amount amount = limit->ahead().Room();
      return LaneRoom{amount.records, amount.bytes};
    };
  }
  if (source.records != nullptr) {
    return std::make_unique<RecordLane>(source.records.get(), plan_.passes, context,
                                        parts_.stop.get_token(), std::move(room));
  }
  const auto rewind = [&parts = parts_] {
    return (!parts.rewind_input || parts.rewind_input()) && parts.plan.source.instances->ReInit();
  };
  return std::make_unique<InstanceLane>(source.instances.get(), source.slots, plan_.passes, context,
                                        rewind, parts_.stop.get_token(), std::move(room));
}

void RunBuilder::BuildLanes() {
  constexpr std::size_t kCostlyRows = 64;  // a parser that asks for pieces this small costs much
  const bool is_costly =
      plan_.parser != nullptr && plan_.parser->max_rows_per_write() <= kCostlyRows;
  const SourceNode& source = plan_.source;
  const std::size_t writers = parts_.workers.writers();
  std::size_t count = std::max<std::size_t>(1, source.streams.size());
  if (parts_.indexed != nullptr) {
    count = BuildChunks();
  } else if (!source.names.empty()) {
    count = BuildSchedule();
  } else {
    parts_.source.set_limits(AheadLimits());
    AddOwnThreads(count);
  }
  if (holds_credits_ && plan_.parser != nullptr && !parts_.unordered) {
    parts_.read_ahead.set_limit(FramedAheadBytes());
  }
  ReserveMemory(count);
  for (std::size_t i = 0; i < parts_.threads.size(); ++i) parts_.read_ahead.AddWorker();
  const bool own_threads = parts_.schedule == nullptr && parts_.chunks == nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t worker = own_threads ? writers + i : i % writers;
    parts_.read_ahead.AddLane(worker, static_cast<std::int64_t>(lane_credits_));
    parts_.ready.AddLane(lane_credits_);
    RunWorker& thread = *parts_.threads[worker];
    thread.context()->store_ahead = store_ahead_;
    thread.AddLane(static_cast<std::uint32_t>(i), MakeLane(i, thread.context()));
  }
  parts_.tasks.set_shared(is_costly || count < writers);
}

// The number of records bounds what a shuffle holds; if it is not known, the arena does, which
// holds their bytes.
void RunBuilder::CheckTables(const ExecutionPlan& whole) const {
  constexpr std::uint64_t kBytesPerRow = 32;
  if (parts_.indexed == nullptr) return;
  std::uint64_t rows = parts_.indexed->fingerprint().records;
  for (const ExecutionPlan::Stage& stage : whole.stages) {
    if (stage.kind == ExecutionPlan::Stage::Kind::kMultiPass) {
      const bool endless = stage.amount == 0 || __builtin_mul_overflow(rows, stage.amount, &rows);
      if (endless) rows = ~std::uint64_t{0};
      continue;
    }
    const std::uint64_t held = std::min(stage.amount, rows);
    if (held <= parts_.arena->bytes() / kBytesPerRow) continue;
    Refuse(StatusCode::kResourceExhausted,
           "a shuffle of " + std::to_string(held) + " records needs " + std::to_string(held) +
               " times " + std::to_string(kBytesPerRow) +
               " bytes for its tables alone, the pinned arena has " +
               std::to_string(parts_.arena->bytes()) +
               "; lower the window, or raise the arena (RINGFEED_ARENA_BYTES)");
  }
}

void RunBuilder::BuildPlanner() {
  Planner::Input input;
  input.plan = &plan_;
  input.stages_by_index = parts_.stages_by_index;
  input.start = parts_.start;
  input.indexed = parts_.indexed.get();
  input.chunks = parts_.chunks.get();
  input.schedule = parts_.schedule.get();
  input.lanes = parts_.ready.lanes();
  input.unordered = parts_.unordered;
  input.stop = parts_.stop.get_token();
  input.worker_failure = &parts_.worker_failure;
  input.ledger = parts_.chain.ledger.get();
  input.ready = &parts_.ready;
  input.memory = &parts_.memory;
  input.sums = &parts_.sums;
  input.source = &parts_.source;
  input.deliveries = &parts_.deliveries;
  input.stages = std::make_unique<PlanStages>(plan_, parts_.start.mark);
  const bool holds_rows = input.stages->failure_stage() != nullptr;
  input.stages->SetSink(MakeSink(input.stages->clock(), holds_rows));
  parts_.planner.emplace(std::move(input));
  parts_.runner.emplace(&*parts_.planner, &parts_.plan_requests, &parts_.memory, &parts_.source,
                        &parts_.deliveries);
}

std::unique_ptr<PlanSink> RunBuilder::MakeSink(PlanClock* clock, bool holds_rows) {
  const ExecutionPlan& plan = plan_;
  // So that some deliveries are complete, and others made, within what may be taken ahead.
  const auto small = static_cast<std::size_t>(parts_.source.ahead().MostRoom().records);
  const SinkParts sink_parts{&parts_.memory, parts_.chain.ledger.get(), &parts_.deliveries,
                             &parts_.tasks};
  if (plan.parser == nullptr) {
    RecordSink::Options options;
    options.skip_rows = parts_.start.leave_out;
    options.clock = clock;
    options.rows_per_delivery = std::min(kRowsPerDelivery, small);
    options.count_bytes = parts_.source.ahead().counts_bytes();
    options.count_payload = holds_rows;
    return std::make_unique<RecordSink>(options, sink_parts);
  }
  BatchSink::Options options;
  options.count_bytes = parts_.source.ahead().counts_bytes();
  options.rows = plan.batched ? plan.batch.size : std::min(kInternalBatchRows, small);
  options.drop_remainder = plan.batch.drop_remainder;
  options.close_at_block_end = !plan.batched;
  options.whole_tensors = plan.batched;
  options.slots = plan.batch.slots;
  // One more to fill meanwhile, and one that is ready.
  if (plan.held_batches > 0) {
    options.wanted_slots = plan.held_batches + 2;
    options.least_slots = plan.needed_batches + 2;
  }
  options.memory_bytes = parts_.memory.budget().limit() / 2;
  options.on_damage = plan.source.options.on_damage;
  options.skip = parts_.start.leave_out;
  options.pad = plan.batch.pad;
  options.note_rows = plan.source.options.note_records;
  options.refusals = parts_.deliveries.judge().of_batches();
  options.clock = clock;
  ShareBatches(&options);
  options.left_fields = parts_.direct ? LeftFieldRules{1, 1, false} : plan.left_fields;
  options.left_fields.leaves_sums = parts_.sums.why_early().empty();
  options.late_sums = parts_.sums.leaves();
  options.count_payload = parts_.sums.leaves() || holds_rows;
  auto sink = std::make_unique<BatchSink>(options, plan.parser.get(), parts_.arena, sink_parts);
  parts_.batch_sink = sink.get();
  return sink;
}

}  // namespace ringfeed
