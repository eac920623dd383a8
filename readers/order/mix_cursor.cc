#include "readers/order/mix_cursor.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

namespace ringfeed {

namespace {

/// Draws that are made before rows are asked for; a state is kept after each so many.
constexpr std::size_t kPiece = 1024;
constexpr std::uint64_t kNoChange = std::numeric_limits<std::uint64_t>::max();

}  // namespace

std::uint64_t MixState::place() const {
  return std::accumulate(
      sets.begin(), sets.end(), std::uint64_t{0},
      [](std::uint64_t sum, const MixCount& count) { return sum + count.count; });
}

MixCursor::MixCursor(std::vector<Set> sets, std::uint64_t kept)
    : kept_(kept), schedule_(std::vector<MixSchedule::Set>{}) {
  std::vector<double> weights;
  for (Set& set : sets) {
    weights.push_back(set.weight);
    even_ = even_ && set.even;
    Member member;
    member.rows = std::make_unique<JoinCursor>(std::move(set.rows), set.passes, set.even);
    member.options = std::move(set);
    members_.push_back(std::move(member));
  }
  weights_ = IntegerWeights(weights);
  begin_ = Zero();
}

MixState MixCursor::Zero() const { return {0, std::vector<MixCount>(members_.size())}; }

void MixCursor::ChangeAt(const OrderPlace& at, std::vector<std::uint64_t> weights) {
  changes_.push_back({at, std::move(weights)});
}

std::vector<MixCursor::Change>::const_iterator MixCursor::NextChange(const OrderPlace& at) const {
  return std::ranges::upper_bound(changes_, at, std::less(), &Change::at);
}

std::uint64_t MixCursor::NextChangeIn(const MixState& state) const {
  const auto next = NextChange({state.pass, state.place()});
  return next != changes_.end() && next->at.pass == state.pass ? next->at.place : kNoChange;
}

std::vector<MixSchedule::Set> MixCursor::SetsAt(const OrderPlace& at) const {
  const auto next = NextChange(at);
  const std::vector<std::uint64_t>& weights =
      next == changes_.begin() ? weights_ : std::prev(next)->weights;
  const std::uint64_t pass = at.pass;
  std::vector<MixSchedule::Set> sets;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Set& options = members_[i].options;
    std::uint64_t limit = members_[i].rows->Places(pass);
    if (options.passes == 0 && members_[i].rows->empty()) limit = 0;
    if (options.most_records > 0) limit = std::min(limit, options.most_records);
    sets.push_back({weights[i], limit});
  }
  return sets;
}

MixSchedule MixCursor::ScheduleAt(const MixState& state) const {
  const OrderPlace here{state.pass, state.place()};
  MixSchedule schedule(SetsAt(here));
  std::vector<MixCount> counts = state.sets;
  const auto next = NextChange(here);
  if (next != changes_.begin() && std::prev(next)->at == here) {
    for (MixCount& count : counts) count.phase = 0;
  }
  schedule.Start(counts);
  return schedule;
}

MixSchedule MixCursor::Dealt(const MixState& state, std::uint64_t place) const {
  MixState from = state;
  MixSchedule schedule = ScheduleAt(from);
  for (;;) {
    const std::uint64_t change = NextChangeIn(from);
    schedule.Skip(std::min(place, change) - from.place());
    if (place < change || schedule.at_end()) return schedule;
    from.sets = schedule.counts();
    schedule = ScheduleAt(from);
  }
}

std::uint64_t MixCursor::Places(std::uint64_t pass) {
  MixState state = Zero();
  state.pass = pass;
  if (pass == begin_.pass) state = begin_;  // other weights may have led there
  if (ScheduleAt(state).endless()) return kEndlessPlaces;
  state.sets = Dealt(state, kEndlessPlaces).counts();
  return std::min(state.place(), kEndlessPlaces);
}

void MixCursor::EndPass(const std::vector<Member>& members, std::uint64_t passes, MixState* state) {
  state->pass += passes;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::uint64_t given = state->sets[i].count;
    const std::uint64_t goes_on = members[i].options.passes == 0 ? passes * given : 0;
    state->sets[i] = {state->sets[i].before + goes_on, 0, 0};
  }
}

void MixCursor::GoToPass(std::uint64_t pass, MixState* state) const {
  const bool any_endless = std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.options.passes == 0;
  });
  if (!any_endless && pass > state->pass) {
    *state = Zero();
    state->pass = pass;
  }
  while (state->pass < pass) {
    std::uint64_t alike = 1;  // passes from here on
    if (state->place() == 0 && even_) {
      const auto change = NextChange({state->pass, 0});
      const std::uint64_t end = change == changes_.end() ? pass : std::min(pass, change->at.pass);
      alike = std::max(end, state->pass + 1) - state->pass;
    }
    if (!ScheduleAt(*state).endless()) state->sets = Dealt(*state, kEndlessPlaces).counts();
    EndPass(members_, alike, state);
  }
}

Status MixCursor::Begin(const MixState& state, bool other_weights) {
  if (state.sets.size() != members_.size()) {
    return Status(StatusCode::kInvalidArgument,
                  "the position is of a mixture of " + std::to_string(state.sets.size()) +
                      " sets, this one has " + std::to_string(members_.size()) +
                      ": give the same sets in the same order");
  }
  const std::vector<MixSchedule::Set> sets = SetsAt({state.pass, state.place()});
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const MixCount& count = state.sets[i];
    if (count.count > sets[i].limit || count.phase > count.count || count.before > kEndlessPlaces) {
      return Status(StatusCode::kInvalidArgument,
                    "the position says that set " + std::to_string(i) + " of the mixture gave " +
                        std::to_string(count.count) + " records, in a pass it has " +
                        std::to_string(sets[i].limit));
    }
  }
  begin_ = state;
  begins_new_ = other_weights;
  snapshots_.clear();
  if (other_weights) {
    for (MixCount& count : begin_.sets) count.phase = 0;
  }
  return {};
}

Status MixCursor::NearestState(std::uint64_t pass, std::uint64_t place, MixState* state) const {
  const auto suits = [&](const MixState& each) {
    return each.pass < pass || (each.pass == pass && each.place() <= place);
  };
  const auto kept = std::find_if(snapshots_.rbegin(), snapshots_.rend(),
                                 [&](const Snapshot& each) { return suits(each.state); });
  if (kept != snapshots_.rend()) {
    *state = kept->state;
  } else if (suits(begin_)) {
    *state = begin_;
  } else if (begins_new_) {
    return Status(StatusCode::kInvalidArgument,
                  "the place is before that at which the mixture's weights were changed: go on "
                  "from there, or start without a position");
  } else {
    *state = Zero();
  }
  GoToPass(pass, state);
  return {};
}

Status MixCursor::StateAt(std::uint64_t pass, std::uint64_t place, MixState* state) {
  const Status status = NearestState(pass, place, state);
  if (!status.ok()) return status;
  state->sets = Dealt(*state, place).counts();
  return {};
}

Status MixCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  MixState state{pass_, schedule_.counts()};
  const bool goes_on = delivered_ > 0 && pass == pass_ + 1 && place == 0 && schedule_.at_end();
  if (goes_on) {
    EndPass(members_, 1, &state);
  } else {
    const Status status = StateAt(pass, place, &state);
    if (!status.ok()) return status;
    snapshots_.clear();
    delivered_ = 0;
  }
  pass_ = pass;
  Deal(state);
  TakeSnapshot();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const MixCount& count = state.sets[i];
    const std::uint64_t own_pass = members_[i].options.passes == 0 ? 0 : pass;
    const Status status = members_[i].rows->Seek(own_pass, count.before + count.count);
    if (!status.ok()) return status;
  }
  return {};
}

void MixCursor::Deal(const MixState& state) {
  schedule_ = ScheduleAt(state);
  to_change_ = NextChangeIn(state);
  if (to_change_ != kNoChange) to_change_ -= state.place();
}

void MixCursor::TakeSnapshot() {
  snapshots_.push_back({{pass_, schedule_.counts()}, delivered_});
  while (snapshots_.size() > 1 && snapshots_[1].delivered + kept_ <= delivered_) {
    snapshots_.pop_front();
  }
}

Status MixCursor::NextPiece(std::span<RowNumber> rows) {
  chosen_.clear();
  for (Member& member : members_) {
    member.at = 0;
    member.taken.clear();
  }
  while (chosen_.size() < rows.size() && !schedule_.at_end()) {
    chosen_.push_back(static_cast<std::uint32_t>(schedule_.Next()));
    ++members_[chosen_.back()].at;
  }
  for (Member& member : members_) {
    std::size_t count = 0;
    member.taken.resize(std::exchange(member.at, 0));
    const Status status = member.rows->Next(member.taken, &count);
    if (!status.ok()) return status;
    if (count < member.taken.size()) {
      return Status(StatusCode::kInternal, "a set of a mixture has fewer rows than it said");
    }
  }
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    Member& member = members_[chosen_[i]];
    rows[i] = member.taken[member.at++] + member.options.first_row;
  }
  delivered_ += chosen_.size();
  return {};
}

Status MixCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = 0;
  while (*count < rows.size() && !schedule_.at_end()) {
    const std::uint64_t most = std::min<std::uint64_t>({rows.size() - *count, kPiece, to_change_});
    const Status status = NextPiece(rows.subspan(*count, static_cast<std::size_t>(most)));
    if (!status.ok()) return status;
    *count += chosen_.size();
    if (to_change_ != kNoChange) to_change_ -= chosen_.size();
    if (to_change_ == 0) Deal({pass_, schedule_.counts()});
    if (delivered_ - snapshots_.back().delivered >= kPiece) TakeSnapshot();
  }
  return {};
}

MixChain MakeMixCursor(std::span<const MixInput> sets, std::uint32_t first_epoch,
                       std::span<const OrderStage> stages, std::uint64_t kept) {
  std::vector<MixCursor::Set> members;
  RowNumber first_row = 0;
  bool even = true;
  for (const MixInput& set : sets) {
    MixCursor::Set member;
    member.rows = MakeRowCursor(*set.layout, set.options, set.stages);
    member.even = HasEvenPasses(set.options.files);
    member.weight = set.weight;
    member.passes = set.passes;
    member.most_records = set.most_records;
    member.first_row = first_row;
    const KeptRows* const some = set.layout->kept();
    first_row += some == nullptr ? set.layout->rows() : some->all();
    even = even && member.even;
    members.push_back(std::move(member));
  }
  auto mix = std::make_unique<MixCursor>(std::move(members), kept);
  MixCursor* const bottom = mix.get();
  return {AddOrderStages(std::move(mix), first_epoch, even, stages), bottom};
}

namespace {

constexpr int kBase = 16;
constexpr std::size_t kMostSets = 1 << 16;

std::string Number(std::uint64_t value) {
  char text[17];
  const auto end = std::to_chars(text, text + sizeof(text), value, kBase).ptr;
  return {text, end};
}

std::uint32_t HashOf(std::span<const std::uint64_t> weights) {
  std::uint64_t hash = weights.size();
  for (const std::uint64_t weight : weights) {
    hash = (hash ^ weight) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return static_cast<std::uint32_t>(hash);
}

/// Takes a number and the separator after it; false if there is none.
bool Take(std::string_view* text, std::uint64_t* value) {
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), *value, kBase);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

bool TakeSeparator(std::string_view* text, char separator) {
  if (!text->starts_with(separator)) return false;
  text->remove_prefix(1);
  return true;
}

bool TakeCount(std::string_view* text, MixCount* count) {
  if (!Take(text, &count->count) || !TakeSeparator(text, '.')) return false;
  if (!Take(text, &count->phase)) return false;
  return !TakeSeparator(text, '.') || Take(text, &count->before);
}

}  // namespace

std::string MixText(const MixState& state, std::span<const std::uint64_t> weights) {
  std::string text = Number(state.pass) + ":" + Number(HashOf(weights));
  char separator = ':';
  for (const MixCount& set : state.sets) {
    text += separator + Number(set.count) + "." + Number(set.phase);
    if (set.before != 0) text += "." + Number(set.before);
    separator = ' ';
  }
  return text;
}

Status ParseMixText(const std::string& text, std::span<const std::uint64_t> weights,
                    MixState* state, bool* other_weights) {
  std::string_view rest = text;
  MixState read;
  std::uint64_t hash = 0;
  bool good = Take(&rest, &read.pass) && TakeSeparator(&rest, ':') && Take(&rest, &hash);
  char separator = ':';
  while (good && !rest.empty() && read.sets.size() < kMostSets) {
    good = TakeSeparator(&rest, separator) && TakeCount(&rest, &read.sets.emplace_back());
    separator = ' ';
  }
  if (!good || !rest.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "\"" + text.substr(0, 100) + "\" is no state of a mixture");
  }
  *other_weights = hash != HashOf(weights);
  *state = std::move(read);
  return {};
}

}  // namespace ringfeed
