#include "readers/order/share_plan.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "base/keyed_permutation.h"

namespace ringfeed {

namespace {

/// The segment that is used, the next one, and the first of the pass for a rest that is repeated.
constexpr std::size_t kKnownSegments = 3;
/// So many passes in a row may be without a step if passes have different files.
constexpr std::uint64_t kMostEmptyPasses = 1000;

}  // namespace

SegmentPlanner::SegmentPlanner(const ShareRules& rules) : rules_(rules) {
  assert(rules_.segment < LengthTable::kHole && rules_.multiple > 0);
  if (rules_.kind != ShareRules::Kind::kPacked) return;
  if (rules_.best_fit) {
    best_fit_.emplace(rules_.length, rules_.most_records);
  } else {
    first_fit_.emplace(rules_.length);
  }
}

Status SegmentPlanner::Plan(std::uint64_t pass, std::uint64_t segment, std::vector<RowNumber> rows,
                            const LengthTable& lengths,
                            std::shared_ptr<const SegmentShares>* shares) {
  pass_ = pass;
  segment_ = segment;
  made_ = std::make_shared<SegmentShares>();
  made_->rows_ = std::move(rows);
  made_->units_.resize(made_->rows_.size());
  const Status status = lengths.UnitsOf(made_->rows_, made_->units_);
  if (!status.ok()) return status;
  CountUnits();
  switch (rules_.kind) {
    case ShareRules::Kind::kRows:
      made_->members_.resize(made_->rows_.size());
      std::iota(made_->members_.begin(), made_->members_.end(), 0);
      break;
    case ShareRules::Kind::kBuckets:
      FillBuckets();
      break;
    case ShareRules::Kind::kPacked:
      Pack();
      break;
    case ShareRules::Kind::kTokens:
      CutByTokens();
      break;
  }
  if (made_->ends_.empty() && !made_->members_.empty()) {  // each row is a share
    made_->ends_.resize(made_->members_.size());
    std::iota(made_->ends_.begin(), made_->ends_.end(), 1);
  }
  if (made_->costs_.empty()) AddCosts();
  *shares = std::move(made_);
  return {};
}

void SegmentPlanner::CountUnits() {
  const bool packed = rules_.kind == ShareRules::Kind::kPacked;
  const bool counts_items = packed || rules_.kind == ShareRules::Kind::kTokens;
  const std::uint32_t most = packed ? rules_.length : LengthTable::kHole - 1;
  items_.clear();
  longest_ = 0;
  const bool fills_up = counts_items && rules_.multiple > 1;
  if (fills_up) made_->own_units_.resize(made_->units_.size());
  for (std::uint32_t place = 0; place < made_->units_.size(); ++place) {
    std::uint32_t& units = made_->units_[place];
    const bool is_hole = units == LengthTable::kHole;
    if (is_hole) units = 0;
    if (!counts_items) continue;
    if (units == 0) {
      if (!is_hole) ++made_->empty_records_;
      continue;
    }
    if (fills_up) made_->own_units_[place] = std::min(units, most);
    units = UpToMultiple(units, rules_.multiple, most);
    longest_ = std::max(longest_, units);
    items_.push_back(place);
  }
}

void SegmentPlanner::Pack() {
  const std::vector<std::uint32_t>& units = made_->units_;
  row_of_.resize(units.size());
  if (rules_.best_fit) {
    by_falling_units_.Sort(units, longest_, &items_);
    for (const std::uint32_t item : items_) row_of_[item] = best_fit_->Place(units[item]);
    GatherRows(best_fit_->rows());
    best_fit_->Clear();
    return;
  }
  for (const std::uint32_t item : items_) {
    row_of_[item] = static_cast<std::uint32_t>(first_fit_->Place(units[item]));
  }
  GatherRows(first_fit_->rows());
  first_fit_->Clear();
}

void SegmentPlanner::GatherRows(std::size_t rows) {
  std::vector<std::uint32_t> next(rows);  // counts, then where the next item of a row goes
  for (const std::uint32_t item : items_) ++next[row_of_[item]];
  FindOrder(rows);
  made_->ends_.reserve(rows);
  std::uint32_t end = 0;
  for (const std::uint64_t row : order_) {
    end += std::exchange(next[row], end);
    made_->ends_.push_back(end);
  }
  made_->members_.resize(items_.size());
  std::vector<std::uint64_t> costs(rows);
  for (std::uint32_t place = 0; place < made_->units_.size(); ++place) {
    const std::uint32_t units = made_->units_[place];
    if (units == 0) continue;
    made_->members_[next[row_of_[place]]++] = place;
    costs[row_of_[place]] += rules_.cost.Of(units);
  }
  made_->costs_.reserve(rows);
  for (const std::uint64_t row : order_) made_->costs_.push_back(costs[row]);
}

void SegmentPlanner::AddCosts() {
  made_->costs_.assign(made_->shares(), 0);
  for (std::size_t share = 0; share < made_->shares(); ++share) {
    for (const std::uint32_t place : made_->PlacesOf(share)) {
      made_->costs_[share] += rules_.cost.Of(made_->units_[place]);
    }
  }
}

void SegmentPlanner::FindOrder(std::size_t shares) {
  order_.resize(shares);
  if (!rules_.best_fit) {
    std::iota(order_.begin(), order_.end(), 0);
  } else if (shares > 0) {
    KeyedPermutation(shares, rules_.seed, rules_.first_epoch + static_cast<std::uint32_t>(pass_),
                     DrawPurpose::kShareOrder, segment_)
        .Range(0, order_);
  }
}

void SegmentPlanner::CutByTokens() {
  const std::vector<std::uint32_t>& units = made_->units_;
  if (rules_.best_fit) by_falling_units_.Sort(units, longest_, &items_);
  std::uint64_t sum = 0;
  std::uint64_t rows = 0;
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const std::uint32_t mine = units[items_[i]];
    // The longest is the first, since `padded` goes with the order by falling units.
    const std::uint64_t with_it =
        rules_.padded ? std::max<std::uint64_t>(mine, rows == 0 ? 0 : sum / rows) * (rows + 1)
                      : sum + mine;
    const bool full = rules_.most_rows != 0 && rows == rules_.most_rows;
    if (rows > 0 && (full || with_it > rules_.tokens)) {
      made_->ends_.push_back(i);
      sum = mine;
      rows = 1;
      continue;
    }
    sum = with_it;
    ++rows;
  }
  if (rows > 0) made_->ends_.push_back(static_cast<std::uint32_t>(items_.size()));
  made_->members_ = items_;
  if (rules_.best_fit) Permute();
}

void SegmentPlanner::FillBuckets() {
  std::vector<std::vector<std::uint32_t>> open(rules_.bounds.size() + 1);
  std::vector<std::uint32_t>& members = made_->members_;
  for (std::uint32_t place = 0; place < made_->units_.size(); ++place) {
    const auto bound =
        std::lower_bound(rules_.bounds.begin(), rules_.bounds.end(), made_->units_[place]);
    std::vector<std::uint32_t>& bucket =
        open[static_cast<std::size_t>(bound - rules_.bounds.begin())];
    bucket.push_back(place);
    if (bucket.size() < rules_.step) continue;
    members.insert(members.end(), bucket.begin(), bucket.end());
    bucket.clear();
  }
  for (const std::vector<std::uint32_t>& rest : open) {
    members.insert(members.end(), rest.begin(), rest.end());
  }
}

void SegmentPlanner::Permute() {
  FindOrder(made_->shares());
  std::vector<std::uint32_t> members;
  std::vector<std::uint32_t> ends;
  members.reserve(made_->members_.size());
  ends.reserve(order_.size());
  for (const std::uint64_t share : order_) {
    const std::span<const std::uint32_t> places = made_->PlacesOf(share);
    members.insert(members.end(), places.begin(), places.end());
    ends.push_back(static_cast<std::uint32_t>(members.size()));
  }
  made_->members_ = std::move(members);
  made_->ends_ = std::move(ends);
}

SharePlan::SharePlan(const ShareRules& rules, const Passes& passes,
                     std::unique_ptr<RowCursor> cursor, std::shared_ptr<const LengthTable> lengths,
                     OnSegment on_segment)
    : rules_(rules),
      passes_(passes),
      cursor_(std::move(cursor)),
      lengths_(std::move(lengths)),
      on_segment_(std::move(on_segment)),
      planner_(rules) {
  assert(rules_.step > 0 && rules_.alike > 0);
}

void SharePlan::Seek(const PlanPosition& at, std::uint64_t step) {
  next_step_ = step - at.done;
  at_ = at;
  at_.done = 0;
  done_ = at.done;
  is_collected_ = false;
}

Status SharePlan::Segment(std::uint64_t pass, std::uint64_t place,
                          std::shared_ptr<const SegmentShares>* shares) {
  for (const Known& known : known_) {
    if (known.pass != pass || known.place != place) continue;
    *shares = known.shares;
    return {};
  }
  const std::uint64_t rows = std::min(rules_.segment, cursor_->Places(pass) - place);
  if (!cursor_at_ || *cursor_at_ != OrderPlace{pass, place}) {
    cursor_at_.reset();
    const Status status = cursor_->Seek(pass, place);
    if (!status.ok()) return status;
  }
  std::vector<RowNumber> numbers(static_cast<std::size_t>(rows));
  std::size_t count = 0;
  cursor_at_.reset();
  const Status given = cursor_->Next(numbers, &count);
  if (!given.ok()) return given;
  assert(count == rows);
  cursor_at_ = {pass, place + rows};
  const Status status =
      planner_.Plan(pass, place / rules_.segment, std::move(numbers), *lengths_, shares);
  if (!status.ok()) return status;
  if (known_.size() == kKnownSegments) known_.pop_front();
  known_.push_back({pass, place, *shares});
  return {};
}

Status SharePlan::TakeShares() {
  const std::uint64_t wanted = rules_.alike * rules_.step;
  block_ = {};
  block_.begin = block_.end = at_;
  PlanPosition& at = block_.end;
  const bool counts_items =
      rules_.kind == ShareRules::Kind::kPacked || rules_.kind == ShareRules::Kind::kTokens;
  if (counts_items && cursor_->Places(at.pass) == kEndlessPlaces && lengths_->most() == 0) {
    return Status(StatusCode::kInvalidArgument,
                  "passes without end over records of which none has a unit");
  }
  const auto is_pass_over = [&] { return at.place >= cursor_->Places(at.pass); };
  while (!is_pass_over() && block_.shares.size() < wanted) {
    const std::uint64_t step = next_step_ + block_.shares.size() / rules_.step;
    const bool begins = at.outputs == 0 && on_segment_ != nullptr;
    if (begins && on_segment_({at.pass, at.place}, step)) cursor_at_.reset();
    std::shared_ptr<const SegmentShares> segment;
    const Status status = Segment(at.pass, at.place, &segment);
    if (!status.ok()) return status;
    const std::uint64_t end =
        std::min<std::uint64_t>(segment->shares(), at.outputs + wanted - block_.shares.size());
    for (; at.outputs < end; ++at.outputs) {
      block_.shares.push_back({segment.get(), static_cast<std::uint32_t>(at.outputs), false});
    }
    if (at.outputs >= segment->shares()) {
      at = {at.pass, at.place + rules_.segment};
      left_out_.empty += segment->empty_records();
    }
    block_.segments.push_back(std::move(segment));
  }
  if (is_pass_over()) at = {at.pass + 1};
  return {};
}

Status SharePlan::Collect() {
  if (const Status status = TakeShares(); !status.ok()) return status;
  if (rules_.alike > 1) MakeAlike();
  const std::uint64_t rest = block_.shares.size() % rules_.step;
  if (rest > 0) {
    if (const Status status = FinishRest(rest); !status.ok()) return status;
  }
  block_.steps = (block_.shares.size() + rules_.step - 1) / rules_.step;
  return {};
}

void SharePlan::MakeAlike() {
  std::vector<PlannedShare>& shares = block_.shares;
  std::vector<std::uint64_t> costs;
  costs.reserve(shares.size());
  for (const PlannedShare& share : shares) {
    costs.push_back(share.segment->CostOf(share.number));
  }
  std::vector<std::uint32_t> by_cost(shares.size());
  std::iota(by_cost.begin(), by_cost.end(), 0);
  std::stable_sort(by_cost.begin(), by_cost.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return costs[a] > costs[b]; });
  std::vector<std::uint64_t> order(shares.size() / rules_.step);
  if (!order.empty()) {
    KeyedPermutation(order.size(), rules_.seed,
                     rules_.first_epoch + static_cast<std::uint32_t>(block_.begin.pass),
                     DrawPurpose::kStepOrder, next_step_)
        .Range(0, order);
  }
  std::vector<PlannedShare> sorted;
  sorted.reserve(shares.size());
  for (const std::uint64_t step : order) {
    for (std::uint64_t i = step * rules_.step; i < (step + 1) * rules_.step; ++i) {
      sorted.push_back(shares[by_cost[i]]);
    }
  }
  for (std::size_t i = sorted.size(); i < shares.size(); ++i) sorted.push_back(shares[by_cost[i]]);
  shares = std::move(sorted);
}

Status SharePlan::FinishRest(std::uint64_t rest) {
  const std::uint64_t missing = rules_.step - rest;
  switch (rules_.rest) {
    case ShareRules::Rest::kShort:
      return {};
    case ShareRules::Rest::kDrop:
      for (; rest > 0; --rest, block_.shares.pop_back()) {
        const PlannedShare& share = block_.shares.back();
        left_out_.dropped += share.segment->PlacesOf(share.number).size();
      }
      return {};
    case ShareRules::Rest::kPad:
      block_.shares.resize(block_.shares.size() + missing);
      return {};
    case ShareRules::Rest::kRepeat:
      return Repeat(missing);
  }
  return {};
}

Status SharePlan::Repeat(std::uint64_t missing) {
  const std::uint64_t places = cursor_->Places(block_.begin.pass);
  for (std::uint64_t place = 0; missing > 0; place += rules_.segment) {
    if (place >= places) place = 0;
    std::shared_ptr<const SegmentShares> segment;
    const Status status = Segment(block_.begin.pass, place, &segment);
    if (!status.ok()) return status;
    const std::uint64_t count = std::min<std::uint64_t>(missing, segment->shares());
    for (std::uint32_t i = 0; i < count; ++i) block_.shares.push_back({segment.get(), i, true});
    block_.segments.push_back(std::move(segment));
    missing -= count;
  }
  return {};
}

Status SharePlan::Next(PlannedStep* step, bool* ended) {
  std::uint64_t empty_passes = 0;
  while (!is_collected_ || done_ >= block_.steps) {
    if (is_collected_) {
      next_step_ += block_.steps;
      at_ = block_.end;
      done_ = 0;
    }
    is_collected_ = false;
    *ended = passes_.count != 0 && at_.pass >= passes_.count;
    if (*ended) return {};
    if (const Status status = Collect(); !status.ok()) return status;
    is_collected_ = true;
    if (block_.steps > 0 || passes_.count != 0) continue;
    if (++empty_passes > (passes_.other_files ? kMostEmptyPasses : 1)) {
      return Status(StatusCode::kInvalidArgument,
                    "passes without end without a single batch: the records of one make too few "
                    "packed rows or token batches; lower the batch size, or keep the rest");
    }
  }
  *ended = false;
  step->pass = block_.begin.pass;
  step->data_pass = cursor_->DataPassAt(step->pass, block_.begin.place).pass;
  const auto begin = block_.shares.begin() + static_cast<std::ptrdiff_t>(done_ * rules_.step);
  const auto end = begin + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(rules_.step),
                                                    block_.shares.end() - begin);
  step->shares.assign(begin, end);
  step->segments = block_.segments;
  step->end = block_.end;
  if (++done_ < block_.steps) {
    step->end = block_.begin;
    step->end.done = done_;
  }
  return {};
}

}  // namespace ringfeed
