#include "readers/engine/run.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "io/file_mapping.h"
#include "readers/engine/run_worker.h"
#include "readers/engine/waiting/stage_clock.h"

namespace ringfeed {

Run::~Run() { Stop(); }

void Run::Start() {
  const std::lock_guard lock(stop_mutex_);
  parts_.workers.Start([this](std::size_t worker) { parts_.threads[worker]->Main(); });
}

void Run::Stop() {
  const std::lock_guard lock(stop_mutex_);
  parts_.stop.request_stop();
  parts_.deliveries.Cancel();
  parts_.workers.WakeAll();
  parts_.workers.Join();
  parts_.opened_files.reset();
  if (std::exchange(let_go_, true)) return;
  // Deliveries that consumers hold live on in the arena. Rows of batches are copies: no consumer
  // sees their blocks, except those that its batch keeps.
  parts_.memory.LetGoOfAll();
  if (parts_.batch_sink != nullptr) parts_.batch_sink->pool().LetGo();
}

// ---- Consumers ----

bool Run::Claim(const Delivery& delivery) {
  return delivery.batch != nullptr ? BatchPool::Claim(delivery.batch)
                                   : parts_.memory.ClaimRecords();
}

QueueResult Run::NextUntil(Delivery* delivery, Deadline deadline, const std::stop_token& stop) {
  const auto take = [&](const std::stop_token& either) {
    return Claimed(parts_.deliveries.TakeUntil(delivery, deadline, either), *delivery);
  };
  if (!stop.stop_possible()) return take(parts_.stop.get_token());
  std::stop_source either;
  const auto request = [&either] { either.request_stop(); };
  const std::stop_callback own(parts_.stop.get_token(), request);
  const std::stop_callback other(stop, request);
  return take(either.get_token());
}

QueueResult Run::TryNext(Delivery* delivery) {
  return Claimed(parts_.deliveries.TryTake(delivery), *delivery);
}

std::optional<Starvation> Run::StarvedBy() const {
  return parts_.stalls.StarvedBy([this] { return parts_.deliveries.taken(); });
}

void Run::NoteSeen(Delivery* delivery) {
  delivery->seen = true;
  holders().NoteSeen();
}

// A consumer that is told of the end was handed all batches: what their writers met is counted.
Status Run::end_status() const {
  const Status why = parts_.deliveries.end_status();
  return why.ok() ? parts_.planner->WhyTooMuchDamage() : why;
}

std::shared_ptr<const void> Run::Lease(Delivery delivery) {
  AwaitSigbus();  // deliveries may be in mapped files
  struct Holder {
    Holder(std::shared_ptr<Run> its_run, Delivery its_delivery)
        : run(std::move(its_run)), delivery(std::move(its_delivery)) {
      run->holders().NoteTaken(thread, delivery.seen);
    }
    ~Holder() {
      run->Release(delivery);
      run->holders().NoteBack(thread);
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    const std::shared_ptr<Run> run;
    const Delivery delivery;
    const std::thread::id thread = std::this_thread::get_id();
  };
  return std::make_shared<const Holder>(shared_from_this(), std::move(delivery));
}

void Run::Release(const Delivery& delivery) {
  if (delivery.batch != nullptr) {
    parts_.batch_sink->pool().Release(delivery.batch);
  } else if (delivery.records != nullptr) {
    const Delivery::Records& records = *delivery.records;
    if (records.block != nullptr) parts_.memory.Drop(records.block, records.rows);
    for (const RowRef& ref : records.refs) parts_.memory.Drop(ref.block, 1);
    parts_.memory.NoteRecordsBack();
  }
  parts_.deliveries.NoteBack();
  if (!stopping()) parts_.plan_requests.Ask();
}

void Run::EndBehind(const BatchBuffer& batch) {
  Stop();
  const PlanSink& sink = parts_.planner->sink();
  const RowTally& planned = sink.tally();
  // Includes what a shuffle holds, which goes with the run.
  PlannedSums counted{planned.delivered + planned.dropped,
                      sink.planned_bytes() - planned.lost_bytes, planned.dropped};
  if (ended_at_) counted = *ended_at_;
  const PlannedSums& before = batch.before;
  ended_at_ = {before.rows + batch.rows,
               before.bytes + batch.payload_bytes.load(std::memory_order_relaxed), before.dropped};
  parts_.chain.ledger->TakeOff({counted.rows - ended_at_->rows, counted.bytes - ended_at_->bytes,
                                counted.dropped - ended_at_->dropped});
  passes_at_failure_.store(*batch.failed_payload_pass, std::memory_order_relaxed);
}

// ---- Statistics ----

Ledger::RunTotals Run::Totals() const {
  Ledger::RunTotals totals;
  const std::uint64_t failed = passes_at_failure_.load(std::memory_order_relaxed);
  totals.passes =
      (failed == kNoPass ? parts_.planner->passes_come() : failed) - parts_.start.mark.pass;
  totals.late_wakes = late_wakes();
  for (const auto& worker : parts_.threads)
    totals.read_bytes += worker->clocks().read_bytes.count();
  if (parts_.chunks != nullptr) {
    const ChunkPlan::Counts counts = parts_.chunks->counts();
    totals.left_out = counts.left_out;
    totals.order_ns = counts.busy_ns;
  }
  if (parts_.batch_sink != nullptr) totals.grown_batches = parts_.batch_sink->pool().grown();
  return totals;
}

RunCounts Run::Counts() const {
  RunCounts counts;
  const ReadyBlocks& ready = parts_.ready;
  counts.lane_count = ready.lanes();
  for (std::size_t i = 0; i < std::min(ready.lanes(), RunCounts::kMostLanes); ++i) {
    counts.lanes.push_back({ready.SizeOf(i), parts_.read_ahead.Credits(i)});
  }
  counts.threads = threads();
  counts.held = holders().held();
  const std::size_t out = parts_.deliveries.out();
  counts.ready = out - std::min(out, counts.held);
  counts.held_bytes = parts_.memory.budget().held_bytes();
  counts.memory_limit_bytes = parts_.memory.budget().limit();
  return counts;
}

void Run::FillStats(PipelineStats* stats) const {
  const Ledger::RunTotals totals = Totals();
  stats->passes_ended += totals.passes;
  stats->read_bytes += totals.read_bytes;
  stats->grown_batches += totals.grown_batches;
  stats->late_wakes += totals.late_wakes;
  stats->planned.dropped_records += totals.left_out.dropped;
  stats->planned.empty_records += totals.left_out.empty;
  stats->planned.plan_s += 1e-9 * static_cast<double>(totals.order_ns);
  StageStats read{"read", 0, 0, "the medium"};
  StageStats decompress{"decompress", 0, 0, ""};
  StageStats frame{"frame", 0, 0, ""};
  StageStats filter{"filter", 0, 0, ""};
  StageStats plan{"plan", 0, 0, ""};
  StageStats write{"write", 0, 0, "a free batch slot"};
  StageStats idle{"idle", 0, 0, "earlier records, or room"};
  for (const auto& worker : parts_.threads) {
    const StageClocks& spent = worker->clocks();
    read.busy_s += spent.read.seconds();
    read.wait_s += spent.wait_medium.seconds();
    decompress.busy_s += spent.decompress.seconds();
    frame.busy_s += spent.frame.seconds();
    filter.busy_s += spent.filter.seconds();
    plan.busy_s += spent.plan.seconds();
    write.busy_s += spent.write.seconds();
    write.wait_s += spent.wait_slot.seconds();
    idle.wait_s += spent.wait_other.seconds();
  }
  stats->stages = {read, decompress, frame, filter, plan, write, idle};
  std::erase_if(stats->stages, [](const StageStats& stage) {
    return stage.busy_s <= 0 && (stage.name == "decompress" || stage.name == "filter");
  });
}

}  // namespace ringfeed
