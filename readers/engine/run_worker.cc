#include "readers/engine/run_worker.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "base/calls_end.h"
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

/// In a handler of what was thrown.
void FailBlock(Block* block) {
  // Records without their fields' places are of no use.
  block->frame.records.clear();
  block->row_failures.clear();
  block->refused.clear();
  block->status = StatusOfThrown("records cannot be read");
  block->denied = IsRefusal(block->status);
}

void CountRows(bool counts_bytes, Block* block) {
  std::uint32_t good_rows = 0;
  std::uint64_t payload_bytes = 0;
  for (const RecordSpan& record : block->frame.records) {  // without branches: there are many
    good_rows += record.damaged() ? 0 : 1;
    payload_bytes += record.damaged() ? 0 : record.size;
  }
  block->good_rows += good_rows;
  block->payload_bytes += payload_bytes;
  for (std::uint32_t row = 0; counts_bytes && row < block->rows(); ++row) {
    block->taken_bytes += block->BytesOf(row);
  }
}

}  // namespace

RunWorker::RunWorker(std::size_t number, RunParts* parts) : number_(number), parts_(*parts) {
  context_.arena = parts->memory.block_arena();
  context_.direct = parts->direct.reads().get();
}

void RunWorker::AddLane(std::uint32_t number, std::unique_ptr<Lane> lane) {
  lanes_.push_back({number, std::move(lane), nullptr, {}, false});
}

void RunWorker::WakeIo() {
  const std::lock_guard lock(io_mutex_);
  if (io_ != nullptr) io_->Wake();
}

void RunWorker::SetUp() {
  const ExecutionPlan& plan = parts_.plan;
  {
    const std::lock_guard lock(io_mutex_);
    io_ = std::make_unique<WorkerIo>(plan.source.options.io, parts_.memory.block_arena(),
                                     parts_.options.engines, parts_.direct.reads());
  }
  context_.options = &plan.source.options;
  context_.check_elements = ElementCheckOf(plan.parser);
  context_.stop = parts_.stop.get_token();
  if (context_.options->format.empty()) context_.check_format = FormatCheckOf(plan.parser);
  context_.io = io_.get();
  context_.trim = plan.shuffled();
  context_.written = plan.parser != nullptr;
  context_.sums = &parts_.sums;
  context_.fails_in_order = parts_.planner->fails_in_order();
  context_.read_clock = &clocks_.read;
  context_.wait_clock = &clocks_.wait_medium;
  context_.decompress_clock = &clocks_.decompress;
  context_.frame_clock = &clocks_.frame;
  context_.read_bytes = &clocks_.read_bytes;
  if (plan.parser != nullptr) {
    scratch_.parser = plan.parser->NewScratch();
    locate_scratch_ = plan.parser->NewScratch();
  }
}

void RunWorker::LetGoOfLanes() {
  for (OwnLane& lane : lanes_) {
    lane.done = true;
    lane.lane->LetGo();
  }
  has_let_go_ = true;
}

void RunWorker::WorkOnce() {
  if (!has_let_go_ && parts_.deliveries.ended()) LetGoOfLanes();
  if (parts_.workers.TakesTasks(number_) && parts_.plan_requests.turn().TakeAsk()) RequestPlan();
  // A user's reader of files may wait until what it gave before is taken. Another worker may have
  // planned that, and its rows are then this one's to write.
  const Tasks first = parts_.plan.source.file_readers != nullptr ? Tasks::kAny : Tasks::kOwn;
  if (FrameTurn() || WriteRows(first)) return;
  frames_turn_ = true;
  if (ReadLane() || WriteRows(Tasks::kAny)) return;
  SleepUntilWork();
}

// Rows get their places in the order of turns. While a worker writes between the parts of its turn,
// no later turn gets on. So it frames all of the turn, and then writes: its own rows, which are in
// its cache, and others' if it has nothing to frame. A worker alone writes what is hot, and so does
// one with a user's reader of files.
bool RunWorker::FrameTurn() {
  const bool alone = parts_.workers.writers() == 1;
  if (!frames_turn_ || alone || parts_.plan.source.file_readers != nullptr) return false;
  frames_turn_ = false;
  OwnLane* const lane = NextLane({});
  if (lane == nullptr) return false;
  const auto turn = lane->place;
  if (!FillBlock(*lane)) return false;
  frames_turn_ = lane->place == turn && !lane->done;
  return true;
}

void RunWorker::Main() {
  const WorkerStop stop(parts_.stop.get_token(), parts_.run);
  const CallsEnd end([this] { return parts_.stopping(); });
  try {
    SetUp();
  } catch (...) {
    // Without this worker its lanes stop: nothing more comes, from now on.
    const Status why = StatusOfThrown("a reader thread could not be set up");
    parts_.deliveries.End(parts_.deliveries.taken(), why);
    return;
  }
  while (!parts_.stopping()) {
    try {
      WorkOnce();
    } catch (...) {
      FailBehindPlan(StatusOfThrown("a reader thread failed"));
    }
  }
  // Lanes give their buffers up before the engine goes, the engine waits for the kernel.
  LetGoOfLanes();
  for (OwnLane& lane : lanes_) lane.lane.reset();
  const std::lock_guard lock(io_mutex_);
  io_.reset();
}

void RunWorker::FailBehindPlan(const Status& status) {
  // It goes on with its writing, since what is planned is good.
  for (OwnLane& lane : lanes_) lane.done = true;
  parts_.worker_failure.Set(status);
  RequestPlan();
}

bool RunWorker::WriteRows(Tasks tasks) {
  WriteTask* task = nullptr;
  const bool taken = tasks == Tasks::kOwn ? parts_.workers.TakeOwnTask(number_, &task)
                                          : parts_.workers.TakeTask(number_, &task);
  if (!taken) return false;
  const StageTimer timer(clocks_.write);
  FetchUpcoming();
  AwaitSigbus();
  parts_.batch_sink->writer().Write(task, &scratch_);
  return true;
}

void RunWorker::FetchUpcoming() {
  const OwnLane* lane = nullptr;
  for (const OwnLane& each : lanes_) {
    if (!each.done && (lane == nullptr || each.place < lane->place)) lane = &each;
  }
  const std::span<const std::byte> upcoming = lane != nullptr && lane->filling == nullptr
                                                  ? lane->lane->Upcoming()
                                                  : std::span<const std::byte>();
  if (upcoming.data() == fetched_) return;
  fetched_ = upcoming.data();
  SetStreamCompanion(upcoming.data(), upcoming.size());
}

bool RunWorker::MayFill(const OwnLane& lane) const {
  // To find out that a parser fits no record, as many records are read as that takes.
  return parts_.read_ahead.MayBegin(lane.number, lane.lane->frames_hot()) &&
         (parts_.source.ahead().MayTake() || parts_.deliveries.judge().open());
}

RunWorker::OwnLane* RunWorker::NextLane(const std::vector<OwnLane*>& tried) {
  OwnLane* next = nullptr;
  for (OwnLane& lane : lanes_) {
    if (lane.done || std::find(tried.begin(), tried.end(), &lane) != tried.end()) continue;
    if (lane.filling == nullptr && !MayFill(lane)) continue;
    if (next == nullptr || lane.place < next->place) next = &lane;
  }
  return next;
}

bool RunWorker::ReadLane() {
  std::vector<OwnLane*> tried;
  while (OwnLane* lane = NextLane(tried)) {
    if (FillBlock(*lane)) return true;
    tried.push_back(lane);
  }
  return false;
}

bool RunWorker::MayLeaveSums(const Block& block, std::uint64_t pass) const {
  // What the run leaves out has nobody who would take them; to ask for that takes a lock.
  return parts_.sums.MayLeave(block, pass) && !parts_.deliveries.judge().open() &&
         (parts_.start.leave_out == 0 || parts_.planner->sink().left_out());
}

void RunWorker::LocateFields(Block* block) {
  const ExecutionPlan& plan = parts_.plan;
  for (const ContentStep& step : plan.content) {
    const StageTimer timer(clocks_.filter);
    if (step.before_locate) step.before_locate(block);
  }
  if (plan.parser != nullptr && plan.parser->two_phase()) {
    const StageTimer timer(clocks_.frame);
    LocateRows(*plan.parser, locate_scratch_.get(), plan.source.options.on_damage,
               parts_.deliveries.judge().open(), block);
  }
  for (const ContentStep& step : plan.content) {
    const StageTimer timer(clocks_.filter);
    if (step.after_locate) step.after_locate(block);
  }
  LoseShrunkRows(plan.source.options.on_damage, block);
  for (std::uint32_t row = 0; !block->filtered.empty() && row < block->rows(); ++row) {
    const RecordSpan& record = block->frame.records[row];
    if (record.damaged() || !block->Filtered(row)) continue;
    ++block->filtered_rows;
    block->filtered_bytes += record.size;
  }
}

bool RunWorker::FillBlock(OwnLane& lane) {
  if (lane.filling == nullptr) {
    parts_.read_ahead.Take(lane.number, 1);
    lane.filling = parts_.memory.Take();
    lane.filling->lane = lane.number;
    lane.filling->fails_in_order = parts_.planner->fails_in_order();
  }
  Block* const block = lane.filling;
  AwaitSigbus();
  const std::uint64_t pass = parts_.start.mark.pass + lane.place.first;
  block->data_pass = pass;  // if the lane knows no other
  try {
    if (!lane.lane->Fill(block)) return false;
    if (!block->frame.unchecked.empty() && !MayLeaveSums(*block, pass)) {
      const StageTimer timer(clocks_.frame);
      CheckPayloads(parts_.plan.source.options.on_damage, block);
    }
    LocateFields(block);
  } catch (...) {
    FailBlock(block);
  }
  if (block->fails_in_order && !block->status.ok() && !block->denied) block->FailBehindRows();
  CountRows(parts_.source.ahead().counts_bytes(), block);
  block->credits = parts_.memory.CreditsFor(*block);
  parts_.read_ahead.Take(lane.number, block->credits - 1);
  Publish(lane);
  return true;
}

void RunWorker::Publish(OwnLane& lane) {
  Block* const block = std::exchange(lane.filling, nullptr);
  if (block->pass_ends) {
    lane.place = {lane.place.first + 1, 0};
  } else if (block->turn_ends) {
    ++lane.place.second;
  }
  lane.done = block->stream_ends || !block->status.ok();
  parts_.read_ahead.NotePublished(lane.number, block->payload_bytes);
  parts_.source.NotePublished({block->rows(), block->taken_bytes});
  parts_.ready.Publish(block);
  RequestPlan();
}

// Why no thread sleeps for ever.
//
// A worker sleeps while HasWork is false, by the protocol of its Sleeper: a thread that changes
// what HasWork reads writes first, then calls Wake. A change in the worker's own thread wakes
// nobody: that thread looks again before it rests (WorkerPool::IsCurrent).
//
//   HasWork looks at        made true by                       which then wakes
//   RunParts::stop          Run::Stop                          all workers
//   Deliveries::ended       Deliveries::End                    all workers
//   PlanTurn::IsAsked       PlanRequests::Ask: a slot, memory  worker 0, and an idle one if
//                           or room for a delivery came back   worker 0 is at work (WakeAny)
//   tasks, overflow_        TaskRouter::Submit                 the writer that has the task, or
//                                                              WakeAny
//   ReadAhead::MayBegin     ReadAhead::GiveBack, MissDue       its worker, as they say
//   TakenAhead::MayTake     NotePlanned, NoteTaken and         the workers of all lanes that it
//                           NoteAsking of SourceLimit          holds back
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
//   a batch slot              Run::Release: PlanRequests::Ask
//   memory for a block        MemoryBudget::NoteFreed (RunMemory), Run::Release and
//                             NoteBatchDone: PlanRequests::Ask
//   room for a delivery       a consumer that takes one (Outbox): PlanRequests::Ask
//
// Should this have a gap, LateWakes finds it.
bool RunWorker::HasWork() const {
  if (parts_.stopping()) return true;
  if (!has_let_go_ && parts_.deliveries.ended()) return true;  // as in WorkOnce
  const bool writes = parts_.workers.TakesTasks(number_);
  if (writes && (parts_.plan_requests.turn().IsAsked() || parts_.workers.HasTask())) return true;
  return std::any_of(lanes_.begin(), lanes_.end(), [this](const OwnLane& lane) {
    return !lane.done && (lane.filling == nullptr ? MayFill(lane) : MayGoOn(lane));
  });
}

bool RunWorker::MayGoOn(const OwnLane& lane) const {
  // What was told to wait for other lanes has nothing in flight of its own.
  return lane.lane->was_held_up() ? !lane.lane->waits() : !io_->in_flight();
}

void RunWorker::SleepUntilWork() {
  const auto has_work = [&] { return HasWork(); };
  Sleeper& sleeper = parts_.workers.sleeper(number_);
  if (io_->in_flight()) {
    const StageTimer timer(clocks_.wait_medium);
    sleeper.SleepInEngine(has_work, [&](bool wait) {
      io_->Reap(wait ? Clock::time_point::max() : Clock::time_point());
    });
    return;
  }
  sleeper.Sleep(has_work, [&](auto&& sleep) {
    const StageTimer timer(parts_.planner->is_backlogged() ? clocks_.wait_slot
                                                           : clocks_.wait_other);
    sleep();
  });
  if (!sleeper.TakeLook()) return;
  const auto plan = [&] { return RequestPlan(); };
  const auto stopping = [this] { return parts_.stopping(); };
  parts_.stalls.late_wakes().LookAgain(number_, &parts_.workers, has_work, plan, stopping);
}

}  // namespace ringfeed
