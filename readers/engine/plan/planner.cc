// The thread that has the plan's turn calls this, one at a time: a worker that published a block,
// or one that was asked to look. That thread owns all members except the atomic ones while it has
// the turn, and PlanTurn hands them over in order. Nothing here waits, allocates slabs or touches a
// record's bytes: stages get references.

#include "readers/engine/plan/planner.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "readers/engine/blocks/failures.h"
#include "readers/order/place_chunks.h"
#include "readers/order/row_cursor.h"
#include "readers/order/window_buckets.h"

namespace ringfeed {

namespace {

/// A row may wait in the plan's stages until so many later rows have come.
std::uint64_t MostHeld(const ExecutionPlan& plan) {
  // Windows take out what is due once for so many rows.
  constexpr std::uint64_t kLate = 2 * std::uint64_t{WindowBuckets<RowRef>::kBucketPositions};
  std::uint64_t most = 0;
  for (const OrderStage& stage : plan.stages) {
    if (stage.kind != OrderStage::Kind::kMultiPass) most += stage.amount + kLate;
  }
  for (const ContentStep& step : plan.content) most += step.segment + kLate;
  return most;
}

/// The ends of segments may drop so many rows in turn though later ones are kept: the end of a
/// segment differs from pass to pass, and a shuffle gives it other rows each time.
std::uint64_t MostDropped(const ExecutionPlan& plan) {
  constexpr std::uint64_t kSegments = 1000;
  std::uint64_t most = 0;
  for (const ContentStep& step : plan.content) most = std::max(most, kSegments * step.segment);
  return most;
}

}  // namespace

Planner::Planner(Input input)
    : input_(std::move(input)),
      plan_(*input_.plan),
      sink_(input_.stages->sink()),
      failure_stage_(input_.stages->failure_stage()),
      warned_before_(input_.ledger->warned()),
      damaged_before_(input_.ledger->damaged()),
      turns_(input_.lanes),
      most_held_(MostHeld(plan_)),
      most_dropped_(MostDropped(plan_)),
      passes_ended_(input_.start.mark.pass) {
  const RunStart& start = input_.start;
  const bool leaves_rows_out = plan_.marks_rows() && start.mark.outputs > 0;
  pass_.is_whole = start.mark.place == 0 && !leaves_rows_out && (!plan_.shares || start.step == 0);
}

void Planner::GoOn() {
  try {
    while (!input_.stop.stop_requested() && !broken_ && PlanNext()) {
    }
  } catch (...) {
    // Stages and sink are in an unfinished state. What writers have is good and goes out.
    broken_ = ended_ = true;
    const Status thrown = StatusOfThrown("the plan of the order failed");
    TellEnd();
    input_.deliveries->End(sink_->first_unfinished(), thrown);
  }
}

bool Planner::PlanNext() {
  const bool backlogged = sink_->Continue();
  backlogged_.store(backlogged, std::memory_order_relaxed);
  // What was held back after a failure is let go of.
  if (failure_stage_ != nullptr && failure_stage_->ended()) Finish(Status());
  if (backlogged || ended_) return false;
  if (const Status failure = input_.worker_failure->Get(); !failure.ok()) {
    FinishWithoutPlace(failure);
    return false;
  }
  Block* block = std::exchange(waiting_block_, nullptr);
  if (block == nullptr && !TakeBlock(&block)) return false;
  Status never;
  if (!MayHold(*block, &never)) {
    waiting_block_ = block;
    if (!never.ok()) FinishWithoutPlace(never);
    return false;
  }
  PlanBlock(block);
  sink_->EnterTally();
  return true;
}

bool Planner::MayHold(const Block& block, Status* never) {
  const auto is_outstanding = [this] {
    return sink_->Outstanding() || (plan_.parser == nullptr && input_.deliveries->IsAnyOut());
  };
  return input_.memory->MayHold(block, is_outstanding, never);
}

bool Planner::TakeBlock(Block** block) {
  if (!input_.unordered) return input_.ready->TakeDue(turns_.Due(), block);
  for (std::size_t i = 0; i < turns_.lanes(); ++i) {
    const std::size_t lane = (turns_.first_look() + i) % turns_.lanes();
    if (!turns_.IsInPass(lane) || !input_.ready->Take(lane, block)) continue;
    turns_.EndTurn(lane);
    return true;
  }
  return false;
}

void Planner::NotePlanned(const Block& block) {
  ++blocks_;
  input_.source->NoteEntered({block.rows(), block.taken_bytes});
  input_.memory->NotePlanned(block);
  input_.sums->NotePlanned(block, passes_ended());
}

void Planner::PlanBlock(Block* block) {
  NotePlanned(*block);
  BlockEnds ends{block->lane,   block->turn_ends, block->pass_ends, block->stream_ends,
                 block->denied, block->status,    std::nullopt};
  const auto rows = static_cast<std::uint32_t>(block->rows());
  block->pass = passes_ended();
  if (input_.chunks == nullptr) block->data_pass = block->pass;
  if (!ends.stream && !std::exchange(pass_.losses_noted, true)) NoteLosses();
  block->holds.store(rows + 1, std::memory_order_relaxed);
  if (const Status mistake = input_.deliveries->judge().JudgeBlock(*block); !mistake.ok()) {
    input_.memory->Drop(block, rows + 1);
    Finish(mistake);
    return;
  }
  EnterBlock(*block);
  if (!other_order_.ok()) {
    input_.memory->Drop(block, rows + 1);
    FinishWithoutPlace(other_order_);
    return;
  }
  if (rows > 0) ends.data_pass = block->data_pass;
  HandOn(block);
  Follow(ends);
}

void Planner::HandOn(Block* block) {
  const auto rows = static_cast<std::uint32_t>(block->rows());
  rows_taken_ += rows;
  rows_kept_ += rows - block->filtered_rows;
  pass_.rows += block->good_rows - block->filtered_rows;
  if (rows > 0 || !block->frame.damage.empty()) pass_.is_empty = false;
  if (!block->row_failures.empty()) failure_stage_->Expect();
  input_.stages->first()->OnRows(block, 0, rows);
  input_.memory->Drop(block, 1);
}

void Planner::Follow(const BlockEnds& ends) {
  if (ends.pass) turns_.EndPassOf(ends.lane);
  if (!ends.status.ok()) {
    ends.denied ? FinishWithoutPlace(ends.status) : Finish(ends.status);
  } else if (const Status damage = WhyTooMuchDamage(); !damage.ok()) {
    Finish(input_.deliveries->judge().EndOr(damage));
  } else if (const Status warning = WhyNotStrict(ends); !warning.ok()) {
    Finish(input_.deliveries->judge().EndOr(warning));
  } else if (ends.stream) {
    Finish(input_.deliveries->judge().EndOr(Status()));
  } else if (turns_.IsPassOver()) {
    EndPass();
  } else if (const Status vain = WhyJoinedPassesAreVain(ends.data_pass); !vain.ok()) {
    Finish(input_.deliveries->judge().EndOr(vain));
  } else if (ends.turn && !input_.unordered) {
    turns_.EndTurn(ends.lane);
  }
}

Status Planner::WhyTooMuchDamage() const {
  const std::uint64_t most = plan_.source.options.max_damaged;
  if (input_.ledger->damaged() - damaged_before_ <= most) return {};
  return Status(StatusCode::kDamaged,
                "more than " + std::to_string(most) + " damaged records or ranges were met");
}

Status Planner::CheckedEnd(const Status& given) const {
  if (!given.ok() || !checks_end_) return given;
  return Ledger::CheckEnd(rows_taken_, sink_->tally());
}

void Planner::EnterBlock(const Block& block) {
  Ledger::Read read{block.payload_bytes - block.filtered_bytes, block.filtered_rows,
                    block.truncated_rows, block.reopened};
  const std::size_t ranges = block.frame.damage.size();
  const std::size_t holes = block.rows() - block.good_rows;
  // By index each range is a record's, and NoteLosses has the others. A record that fails in the
  // order has no range.
  if (input_.chunks == nullptr && block.row_failures.empty() && (ranges > 0 || holes > 0)) {
    read.lost_ranges = static_cast<std::int64_t>(ranges + block.frame.more_holes) -
                       static_cast<std::int64_t>(holes);
  }
  sink_->NotePlannedBytes(read.payload_bytes);
  input_.ledger->Add(read);
  input_.ledger->NoteDamage(block.frame.damage, ranges);
  NoteWarnings(block.frame.warnings);
  if (input_.start.other_policy && (read.lost_ranges > 0 || !block.row_failures.empty()) &&
      !sink_->left_out()) {
    NoteOtherOrder(block.file_name);
  }
}

void Planner::NoteWarnings(std::span<const DataWarning> warnings) {
  input_.ledger->NoteWarnings(warnings);
  warned_ = warned_ || !warnings.empty();
}

Status Planner::WhyNotStrict(const BlockEnds& ends) const {
  if (!plan_.source.options.strict) return {};
  const bool at_end = ends.stream || turns_.IsPassOver();
  const bool fails = warned_ || (at_end && input_.ledger->warned() != warned_before_);
  return fails ? input_.ledger->LastWarning() : Status();
}

void Planner::NoteOtherOrder(const std::string& file) {
  const bool skips = plan_.source.options.on_damage == OnDamage::kSkip;
  other_order_ = Status(
      StatusCode::kInvalidArgument,
      std::string("the position is of a chain that ") +
          (skips ? "fails at damage, this one skips it" : "skips damage, this one fails at it") +
          "; after damage without a record's number a shuffle has another order then: go on as "
          "before, with the file repaired, or begin anew",
      {file, -1, -1});
}

// No rank reads them: if several ranks read the same files, the first one reports them.
void Planner::NoteLosses() {
  if (input_.indexed == nullptr) return;
  const IndexedSource::Losses losses =
      input_.indexed->LossesOf(passes_ended(), input_.stages_by_index);
  if (losses.count > 0) pass_.is_empty = false;
  const bool first = passes_ended() == input_.start.mark.pass;
  if (input_.start.other_policy && first && losses.count > 0) {
    NoteOtherOrder(losses.ranges.empty() ? "" : losses.ranges.front().file);
  }
  NoteWarnings(losses.warnings);  // each of the ranks: a strict one must not end alone
  if (plan_.batch.rank.rank == 0 || plan_.batch.split_by_files) {
    input_.ledger->NoteDamage(losses.ranges, losses.count);
    input_.ledger->Add(Ledger::Read{.lost_ranges = static_cast<std::int64_t>(losses.count)});
  }
}

Status Planner::CheckSums(std::uint64_t passes_seen) const {
  const std::uint64_t pass = passes_ended() - 1;
  if (input_.chunks != nullptr) {
    const std::uint64_t planned = input_.chunks->TakeRowsOf(pass);
    RowTally read;
    read.delivered = rows_taken_ - pass_.taken_before;
    if (planned != read.delivered) return Ledger::Check(pass, planned, read);
    // Shares leave records out that have no units.
    const bool all = pass_.is_whole && plan_.batch.rank.world_size == 1 && !plan_.shares;
    const std::optional<std::uint64_t> indexed =
        all ? input_.indexed->RowsOf(pass, input_.stages_by_index) : std::nullopt;
    if (indexed && *indexed != read.delivered) return Ledger::Check(pass, *indexed, read);
  }
  // Stages may hold rows back if the end of a pass is none to later stages: then the end of all
  // tells.
  if (sink_->tally().passes == passes_seen) return {};
  return Ledger::Check(pass, rows_taken_, sink_->tally());
}

void Planner::EndPass() {
  passes_ended_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t passes_seen = sink_->tally().passes;
  input_.stages->first()->OnPassEnd();
  if (const Status wrong = CheckSums(passes_seen); !wrong.ok()) Finish(wrong);
  turns_.StartPass();
  if (IsLikeAllPasses()) {
    passes_ended_.store(plan_.passes, std::memory_order_relaxed);
    Finish(Status());
  } else if (const Status vain = WhyPassesAreVain(); !vain.ok()) {
    Finish(input_.deliveries->judge().EndOr(vain));
  }
  pass_ = {.before = sink_->tally(), .taken_before = rows_taken_};
}

Status Planner::WhyPassesAreVain() {
  if (!plan_.is_endless()) return {};
  const bool is_vain = BringsNothing();
  if (!pass_.is_whole) return {};
  const Rank& rank = plan_.batch.rank;
  if (std::optional<std::uint64_t> rows = sink_->rows_of_dropped_pass()) {
    // A rank knows only its own rows, unless it has to look at all.
    if (input_.indexed != nullptr && rank.world_size > 1 && !plan_.looks_into_records()) {
      rows = input_.indexed->RowsOf(passes_ended() - 1, input_.stages_by_index);
    }
    if (!rows || *rows > 0) return NoBatchInAPass(rows, plan_.batch.size);
  }
  if (GetsOtherFiles() || (pass_.rows > 0 && !is_vain)) return {};
  return WhyNoRowCame();
}

Status Planner::WhyJoinedPassesAreVain(std::optional<std::uint64_t> data_pass) {
  // Two whole passes lie between the first and the last block of four. A rank alone does not see
  // all rows of a pass.
  constexpr std::uint64_t kPasses = 3;
  constexpr std::uint64_t kPassesOfPart = 1000;
  if (!data_pass || !plan_.is_endless() || input_.chunks == nullptr) return {};
  if (plan_.shows_empty_batches()) return {};
  if (!pass_.quiet_since || pass_.rows != pass_.quiet_rows) {
    pass_.quiet_since = data_pass;
    pass_.quiet_rows = pass_.rows;
    return {};
  }
  const bool sees_all = plan_.batch.rank.world_size == 1 && !GetsOtherFiles();
  const std::uint64_t quiet = *data_pass - *pass_.quiet_since;
  return quiet < (sees_all ? kPasses : kPassesOfPart) ? Status() : WhyNoRowCame();
}

Status Planner::WhyNoRowCame() const {
  const Rank& rank = plan_.batch.rank;
  // Of planned batches a rank reads its own shares alone.
  const bool knows_all =
      rank.world_size == 1 || (plan_.looks_into_records() && !plan_.shares.has_value());
  const bool some_dropped = pass_.rows > 0 && sink_->tally().dropped > quiet_.since.dropped;
  if (pass_.rows > 0 && !some_dropped && sink_->tally().of_others == quiet_.since.of_others) {
    return Status(StatusCode::kInvalidArgument,
                  "passes without end over records of which none has a place in a batch: Pack "
                  "leaves out those that are empty");
  }
  if (some_dropped && knows_all) {
    return Status(StatusCode::kInvalidArgument,
                  "passes without end without a good record but in a rest, which is dropped: lower "
                  "the batch size, keep the rest, or put MultiPass in front of Batch");
  }
  if (pass_.rows == 0 && knows_all) {
    return Status(StatusCode::kInvalidArgument,
                  "passes without end over data without a single record");
  }
  // The rows of other ranks are not known here, only that the order has places: see ChunkPlan. If
  // batches without rows go out, empty or padded, each batch of the order is delivered.
  if (plan_.shows_empty_batches() || plan_.batch.pad) return {};
  return Status(StatusCode::kInvalidArgument,
                "rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.world_size) +
                    " has no good row of any batch, and the passes are without end: lower the "
                    "batch size, or take batches without rows too (BatchOptions::empty_batches)");
}

bool Planner::BringsNothing() {
  const RowTally& now = sink_->tally();
  const PlanSink::Settled settled = sink_->settled();
  // After the end of a pass that the sink sees nothing is held back.
  const bool is_apart = now.passes > pass_.before.passes;
  const bool is_quiet = pass_.is_whole && settled.kept == quiet_.kept &&
                        now.left_out == quiet_.since.left_out &&
                        (is_apart || now.of_others == quiet_.since.of_others);
  if (!is_quiet) {
    quiet_ = Quiet();
    quiet_.since = now;
    quiet_.kept = settled.kept;
    quiet_.from = rows_kept_;
    return false;
  }
  if (is_apart) return true;
  if (!quiet_.a_pass) quiet_.a_pass = rows_kept_;
  const bool all_came = now.rows() == rows_taken_ || rows_kept_ - *quiet_.a_pass >= most_held_;
  if (all_came && !quiet_.to_come) quiet_.to_come = now.rows();
  if (!quiet_.to_come || settled.rows < *quiet_.to_come) return false;
  return now.dropped == quiet_.since.dropped || rows_kept_ - quiet_.from >= most_dropped_;
}

bool Planner::GetsOtherFiles() const {
  if (input_.indexed != nullptr) return input_.indexed->HasOtherFilesInEachPass();
  return input_.schedule != nullptr && !HasEvenPasses(plan_.source.options.files) &&
         input_.schedule->HasStripes();
}

// There may be very many passes over nothing.
bool Planner::IsLikeAllPasses() const {
  const bool of_files = input_.schedule != nullptr || input_.chunks != nullptr;
  return plan_.passes > 1 && of_files && plan_.source.file_readers == nullptr && pass_.is_empty &&
         pass_.is_whole && !GetsOtherFiles();
}

void Planner::Finish(const Status& status) {
  if (ended_) return;
  ended_ = true;
  checks_end_ = failure_stage_ == nullptr || !failure_stage_->ended();
  input_.stages->first()->OnEnd(status);
  TellEnd();
  checks_end_ = false;
}

void Planner::TellEnd() {
  const std::optional<PlanSink::End> end = sink_->TakeEnd();
  if (end) input_.deliveries->End(end->number, CheckedEnd(end->status));
}

void Planner::FinishWithoutPlace(const Status& why) {
  if (failure_stage_ != nullptr) failure_stage_->Stop(why);
  Finish(why);
}

PlanStages::PlanStages(const ExecutionPlan& plan, const PlanPosition& start)
    : clock_(start.pass, start.place) {
  using Kind = OrderStage::Kind;
  for (const OrderStage& stage : plan.stages) {
    if (stage.kind == Kind::kStripes || stage.kind == Kind::kGlobal) continue;  // by index
    stages_.push_back(MakeOrderStage(stage, plan.source.options.first_epoch));
  }
  AddFailureStage(plan);
  if (plan.shares || plan.marks_rows()) clock_.AtStep(start);
  for (const ContentStep& step : plan.content) stages_.push_back(step.make(&clock_));
}

void PlanStages::AddFailureStage(const ExecutionPlan& plan) {
  const auto shuffles = [](const OrderStage& stage) {
    using Kind = OrderStage::Kind;
    return stage.kind == Kind::kWindow || stage.kind == Kind::kBlock;
  };
  if (std::none_of(plan.stages.begin(), plan.stages.end(), shuffles)) return;
  auto stage = std::make_unique<FailureStage>();
  failure_stage_ = stage.get();
  stages_.push_back(std::move(stage));
}

void PlanStages::SetSink(std::unique_ptr<PlanSink> sink) {
  sink_ = sink.get();
  stages_.push_back(std::move(sink));
  for (std::size_t i = 0; i + 1 < stages_.size(); ++i) stages_[i]->set_next(stages_[i + 1].get());
}

}  // namespace ringfeed
