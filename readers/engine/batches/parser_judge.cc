#include "readers/engine/batches/parser_judge.h"

#include <utility>
#include <vector>

namespace ringfeed {

namespace {

// The rows that the parser refused in front of the first one that it took.
std::vector<RefusedRow> RefusedBeforeOther(const Block& block) {
  std::vector<RefusedRow> refused;
  for (const RefusedRow& row : block.refused) {
    const std::uint32_t begin = refused.empty() ? 0 : refused.back().row + 1;
    for (std::uint32_t other = begin; other < row.row; ++other) {
      if (!block.frame.records[other].damaged() && !block.Filtered(other)) return refused;
    }
    refused.push_back(row);
  }
  return refused;
}

}  // namespace

ParserJudge::ParserJudge(const Options& options, Put put, ChangeStatus change_status)
    : options_(options),
      put_(std::move(put)),
      change_status_(std::move(change_status)),
      refusals_(options.asked) {}

Status ParserJudge::JudgeBlock(const Block& block) {
  if (options_.by_batches || !refusals_.open()) return {};
  const Status mistake = refusals_.Refuse(RefusedBeforeOther(block));
  const bool some_are_taken = block.good_rows > block.filtered_rows;
  if (mistake.ok() && some_are_taken) refusals_.Close();
  return mistake;
}

Status ParserJudge::EndOr(const Status& status) {
  if (options_.by_batches || !options_.from_beginning) return status;
  const Status mistake = refusals_.End();
  return mistake.ok() ? status : mistake;
}

bool ParserJudge::Take(std::uint64_t number, Delivery* delivery) {
  if (!options_.by_batches || !refusals_.open()) return false;
  const std::lock_guard lock(mutex_);
  if (!refusals_.open()) return false;
  waiting_.emplace(number, std::move(*delivery));
  while (!waiting_.empty() && (!refusals_.open() || waiting_.begin()->first == judged_)) {
    auto next = waiting_.extract(waiting_.begin());
    ++judged_;
    Judge(next.mapped().batch);
    JudgeEnd();
    put_(next.key(), std::move(next.mapped()));
  }
  return true;
}

void ParserJudge::Judge(BatchBuffer* slot) {
  if (!refusals_.open()) return;
  if (!slot->status.ok()) return refusals_.Close();
  const Status mistake = refusals_.Refuse(slot->refused);
  if (!mistake.ok()) {
    slot->rows = 0;
    slot->status = mistake;
  } else if (!slot->all_refused) {
    refusals_.Close();
  }
}

void ParserJudge::NoteEnd(std::uint64_t batches) {
  if (!options_.by_batches || !refusals_.open()) return;
  const std::lock_guard lock(mutex_);
  batches_ = batches;
  JudgeEnd();
}

void ParserJudge::JudgeEnd() {
  if (!options_.from_beginning || batches_ != judged_) return;
  const Status mistake = refusals_.End();
  if (mistake.ok()) return;
  change_status_([&](Status* status) {
    // The run may have ended with too much damage: the mistake is the reason for that.
    if (status->ok() || status->code() == StatusCode::kDamaged) *status = mistake;
  });
}

}  // namespace ringfeed
