#include "readers/order/share_chunks.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

namespace ringfeed {

ShareChunks::ShareChunks(std::unique_ptr<SharePlan> plan, const Options& options)
    : plan_(std::move(plan)), options_(options), pass_(options.begin.pass) {
  assert(options_.rank < options_.split.ranks && options_.rows_per_chunk > 0);
  plan_->Seek(options_.begin, options_.first_step);
}

void ShareChunks::Make(Chunk* chunk) {
  if (!planned_ && !ended_) {
    chunk->pass = pass_;
    planned_ = NextStep(chunk);
    if (!chunk->status.ok()) {
      chunk->kind = Chunk::Kind::kRows;
      return;
    }
  }
  chunk->pass = pass_;
  // A pass without a step ends, too.
  const bool pass_over =
      ended_ ? options_.passes != 0 && pass_ < options_.passes : step_.pass != pass_;
  if (pass_over) {
    chunk->kind = Chunk::Kind::kPassEnd;
    chunk->pass_rows = std::exchange(pass_rows_, 0);
    ++pass_;
    return;
  }
  if (ended_) {
    chunk->kind = Chunk::Kind::kEnd;
    return;
  }
  chunk->kind = Chunk::Kind::kRows;
  chunk->data_pass = step_.data_pass;
  while (planned_ && chunk->rows.size() < options_.rows_per_chunk) {
    TakeRows(chunk);
    if (planned_) break;  // the chunk is full
    planned_ = NextStep(chunk);
    if (!planned_ || step_.pass != pass_ || step_.data_pass != chunk->data_pass) break;
  }
  pass_rows_ += chunk->rows.size();
}

bool ShareChunks::NextStep(Chunk* chunk) {
  chunk->status = plan_->Next(&step_, &ended_);
  if (!chunk->status.ok() || ended_) return false;
  FindPart();
  return true;
}

void ShareChunks::FindPart() {
  if (step_.shares.size() < options_.fill_to) step_.shares.resize(options_.fill_to);
  std::vector<std::uint64_t> costs;
  costs.reserve(step_.shares.size());
  facts_ = {step_.end};
  for (const PlannedShare& share : step_.shares) {
    AddFacts(share);
    costs.push_back(share.segment == nullptr ? 0 : share.segment->CostOf(share.number));
  }
  std::vector<std::vector<std::uint32_t>> parts = SplitShares(costs, options_.split);
  facts_.imbalance = ImbalanceOf(parts, costs, options_.split);
  part_ = std::move(parts[options_.rank]);
  next_share_ = next_place_ = 0;
  begins_step_ = true;
}

void ShareChunks::AddFacts(const PlannedShare& share) {
  std::uint64_t units = 0;
  if (share.segment != nullptr) {
    const std::span<const std::uint32_t> places = share.segment->PlacesOf(share.number);
    for (const std::uint32_t place : places) units += share.segment->OwnUnitsAt(place);
    if (!share.repeated) facts_.records += places.size();
    if (!share.repeated) facts_.units += units;
  }
  if (options_.row_units != 0) facts_.padding_units += options_.row_units - units;
}

void ShareChunks::TakeRows(Chunk* chunk) {
  const auto add = [this, chunk](RowNumber row, PlannedRow planned) {
    if (std::exchange(begins_step_, false)) {
      planned.marks |= PlannedRow::kBeginsStep;
      chunk->steps.push_back(facts_);
    }
    chunk->rows.push_back(row);
    chunk->planned.push_back(planned);
  };
  if (part_.empty()) add(kNoRow, {0, PlannedRow::kNoShare});
  for (; next_share_ < part_.size(); ++next_share_, next_place_ = 0) {
    const PlannedShare& share = step_.shares[part_[next_share_]];
    const std::uint8_t marks = share.repeated ? PlannedRow::kRepeated : 0;
    if (share.segment == nullptr) {
      if (chunk->rows.size() >= options_.rows_per_chunk) return;
      add(kNoRow, {0, PlannedRow::kEndsShare});
      continue;
    }
    const std::span<const std::uint32_t> places = share.segment->PlacesOf(share.number);
    for (; next_place_ < places.size(); ++next_place_) {
      if (chunk->rows.size() >= options_.rows_per_chunk) return;
      const std::uint32_t place = places[next_place_];
      add(share.segment->RowAt(place), {share.segment->UnitsAt(place), marks});
    }
    chunk->planned.back().marks |= PlannedRow::kEndsShare;
  }
  chunk->planned.back().marks |= PlannedRow::kEndsStep;
  planned_ = false;
}

}  // namespace ringfeed
