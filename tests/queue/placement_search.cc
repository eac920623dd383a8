#include "tests/queue/placement_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

namespace ringfeed::history {
namespace {

constexpr Stamp kStart = std::numeric_limits<Stamp>::min();

std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

std::string Name(const Element& element) {
  const std::string span =
      " [" + std::to_string(element.in_first) + ", " + std::to_string(element.in_last) + "]";
  if (element.kind == Element::Kind::kEmpty) return "the answer empty" + span;
  if (element.kind == Element::Kind::kFull) return "the answer full" + span;
  std::string name = "item " + std::to_string(element.value) + " pushed" + span;
  if (element.out_first == kNever) return name + " never popped";
  return name + " popped [" + std::to_string(element.out_first) + ", " +
         std::to_string(element.out_last) + "]";
}

}  // namespace

UnplacedList::UnplacedList(const std::vector<Element>& elements, Stamp Element::*key)
    : next_(elements.size() + 1), previous_(elements.size() + 1) {
  std::vector<std::size_t> order(elements.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return elements[a].*key < elements[b].*key;
  });
  std::size_t last = End();
  for (const std::size_t element : order) {
    next_[last] = element;
    previous_[element] = last;
    last = element;
  }
  next_[last] = End();
  previous_[End()] = last;
}

PlacementSearch::PlacementSearch(std::vector<Element> elements, std::size_t capacity)
    : elements_(std::move(elements)),
      capacity_(capacity),
      by_in_first_(elements_, &Element::in_first),
      by_in_last_(elements_, &Element::in_last),
      by_out_last_(elements_, &Element::out_last),
      placed_(elements_.size(), 0),
      last_in_(kStart),
      last_out_(kStart) {
  std::mt19937_64 random(7);
  for (const Element& element : elements_) {
    marks_.push_back(random());
    if (element.kind == Element::Kind::kFull) ++fulls_left_;
  }
}

HistoryVerdict PlacementSearch::Run(std::size_t max_steps) {
  HistoryVerdict verdict;
  if (elements_.empty()) return verdict;
  Open();
  while (!places_.empty()) {
    Place& place = places_.back();
    if (place.chosen != kNoElement) Undo(place);
    if (place.next == place.candidates.size()) {
      // Only where there was a choice: what leads here without one fails as fast again.
      if (place.candidates.size() > 1) failed_.insert(place.state);
      places_.pop_back();
      continue;
    }
    if (++verdict.steps > max_steps) {
      verdict.kind = HistoryVerdict::Kind::kUndecided;
      verdict.why = "undecided; " + Stuck();
      return verdict;
    }
    if (!Put(place.candidates[place.next++], place)) continue;
    if (places_.size() == elements_.size()) return verdict;
    Open();
  }
  verdict.kind = HistoryVerdict::Kind::kViolation;
  verdict.why = Stuck();
  return verdict;
}

void PlacementSearch::Open() {
  Place place;
  place.candidates = Candidates();
  LeaveOutNeedless(place.candidates);
  if (place.candidates.size() > 1) {
    place.state = State(place.candidates);
    if (failed_.count(place.state) != 0) place.candidates.clear();
  }
  places_.push_back(std::move(place));
  if (places_.size() > deepest_) {
    deepest_ = places_.size();
    stuck_at_ = {by_in_last_.First(), by_out_last_.First()};
  }
}

bool PlacementSearch::Fits(std::size_t element) const {
  for (const std::size_t before : elements_[element].after) {
    if (before != kNoElement && placed_[before] == 0) return false;
  }
  return true;
}

// An element comes before another if it went in, or out, before the other could begin to. The first
// that must be in and the first that must be out tell it for all.
std::vector<std::size_t> PlacementSearch::Candidates() const {
  std::vector<std::size_t> candidates;
  const Stamp in_by = elements_[by_in_last_.First()].in_last;
  const Stamp out_by = elements_[by_out_last_.First()].out_last;
  for (std::size_t at = by_in_first_.First();
       at != by_in_first_.End() && elements_[at].in_first <= in_by; at = by_in_first_.Next(at)) {
    if (elements_[at].out_first <= out_by && Fits(at)) candidates.push_back(at);
  }
  // The likeliest first: nobody knows better who was first in than who was first out.
  std::sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
    const Element& x = elements_[a];
    const Element& y = elements_[b];
    return std::tie(x.out_first, x.in_last, a) < std::tie(y.out_first, y.in_last, b);
  });
  return candidates;
}

bool PlacementSearch::CostsNothing(std::size_t element) const {
  const Element& answer = elements_[element];
  if (answer.kind == Element::Kind::kItem || answer.in_first > last_in_ ||
      last_in_ > answer.in_last) {
    return false;
  }
  if (answer.kind == Element::Kind::kEmpty) return last_out_ <= last_in_ && !MayBeHeldBack();
  return outs_.size() >= empty_from_ + capacity_ && outs_[outs_.size() - capacity_] >= last_in_;
}

// Whether a `full` may come that holds back the last item: not if an `empty` stands in between.
bool PlacementSearch::MayBeHeldBack() const {
  if (fulls_left_ == 0 || empty_from_ == items_.size()) return false;
  const Stamp until = elements_[items_.back()].out_last;
  for (std::size_t at = by_in_first_.First();
       at != by_in_first_.End() && elements_[at].in_first <= until; at = by_in_first_.Next(at)) {
    if (elements_[at].kind == Element::Kind::kFull) return true;
  }
  return false;
}

// Whether the element could as well stand before the one at `place`, and should.
bool PlacementSearch::BetterBefore(std::size_t element, const Place& place) const {
  const Element& one = elements_[element];
  const Element& other = elements_[place.chosen];
  if (one.kind != Element::Kind::kItem || other.kind != Element::Kind::kItem) return false;
  const std::array<Stamp, 4> stamps{one.in_first, one.in_last, one.out_first, one.out_last};
  const std::array<Stamp, 4> others{other.in_first, other.in_last, other.out_first, other.out_last};
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    if (stamps[i] > others[i]) return false;
  }
  return (stamps != others || element < place.chosen) &&
         std::find(place.candidates.begin(), place.candidates.end(), element) !=
             place.candidates.end();
}

void PlacementSearch::LeaveOutNeedless(std::vector<std::size_t>& candidates) const {
  for (const std::size_t candidate : candidates) {
    if (!CostsNothing(candidate)) continue;
    candidates = {candidate};
    return;
  }
  if (places_.empty()) return;
  std::erase_if(candidates,
                [&](std::size_t candidate) { return BetterBefore(candidate, places_.back()); });
}

bool PlacementSearch::Put(std::size_t element, Place& place) {
  const Element& chosen = elements_[element];
  place.last_in = last_in_;
  place.last_out = last_out_;
  place.empty_from = empty_from_;
  if (chosen.kind == Element::Kind::kItem) {
    if (!PutItem(chosen)) return false;
    items_.push_back(element);
  } else if (chosen.kind == Element::Kind::kFull) {
    if (!PutFull(chosen, place)) return false;
  } else {
    const Stamp moment = std::max({chosen.in_first, last_in_, last_out_});
    if (moment > chosen.in_last) return false;
    last_in_ = last_out_ = moment;
    empty_from_ = items_.size();
  }
  place.chosen = element;
  placed_[element] = 1;
  placed_mark_ ^= marks_[element];
  by_in_first_.TakeOut(element);
  by_in_last_.TakeOut(element);
  by_out_last_.TakeOut(element);
  return true;
}

bool PlacementSearch::PutItem(const Element& item) {
  Stamp in = std::max(item.in_first, last_in_);
  if (outs_.size() >= capacity_) in = std::max(in, outs_[outs_.size() - capacity_]);
  if (in > item.in_last) return false;
  const Stamp out = std::max({item.out_first, in, last_out_});
  if (out > item.out_last) return false;
  last_in_ = in;
  last_out_ = out;
  outs_.push_back(out);
  return true;
}

bool PlacementSearch::PutFull(const Element& full, Place& place) {
  if (outs_.size() < empty_from_ + capacity_) return false;
  const std::size_t from = outs_.size() - capacity_;
  const Stamp moment = std::max(full.in_first, last_in_);
  if (moment > full.in_last) return false;
  for (std::size_t i = from; i < outs_.size() && outs_[i] < moment; ++i) {
    if (moment > elements_[items_[i]].out_last) return false;
  }
  place.held_back.assign(outs_.begin() + static_cast<std::ptrdiff_t>(from), outs_.end());
  for (std::size_t i = from; i < outs_.size(); ++i) outs_[i] = std::max(outs_[i], moment);
  last_in_ = moment;
  last_out_ = std::max(last_out_, outs_.back());
  --fulls_left_;
  return true;
}

void PlacementSearch::Undo(Place& place) {
  const std::size_t element = std::exchange(place.chosen, kNoElement);
  by_out_last_.PutBack(element);
  by_in_last_.PutBack(element);
  by_in_first_.PutBack(element);
  placed_mark_ ^= marks_[element];
  placed_[element] = 0;
  if (elements_[element].kind == Element::Kind::kItem) {
    outs_.pop_back();
    items_.pop_back();
  } else if (elements_[element].kind == Element::Kind::kFull) {
    std::copy(place.held_back.begin(), place.held_back.end(),
              outs_.end() - static_cast<std::ptrdiff_t>(capacity_));
    ++fulls_left_;
  }
  last_in_ = place.last_in;
  last_out_ = place.last_out;
  empty_from_ = place.empty_from;
}

// All that what follows depends on: who has a place, who is tried next, and the moments that hold
// others back. Two different states with one hash (odds of 10^-7 in a million states) would cut a
// branch off.
std::uint64_t PlacementSearch::State(const std::vector<std::size_t>& candidates) const {
  std::uint64_t hash = Mix(placed_mark_, static_cast<std::uint64_t>(last_in_));
  for (const std::size_t candidate : candidates) hash = Mix(hash, candidate);
  hash = Mix(hash, static_cast<std::uint64_t>(std::max(last_in_, last_out_)));
  const std::size_t count = std::min(outs_.size(), capacity_);
  for (std::size_t i = outs_.size() - count; i < outs_.size(); ++i) {
    hash = Mix(hash, static_cast<std::uint64_t>(std::max(outs_[i], last_in_)));
    if (fulls_left_ != 0) hash = Mix(hash, static_cast<std::uint64_t>(items_[i]));
  }
  return fulls_left_ != 0 ? Mix(hash, std::min(outs_.size() - empty_from_, capacity_)) : hash;
}

std::string PlacementSearch::Stuck() const {
  const Element& in = elements_[stuck_at_[0]];
  const Element& out = elements_[stuck_at_[1]];
  std::string text = "no order explains it beyond " + std::to_string(deepest_ - 1) + " of " +
                     std::to_string(elements_.size()) + " items and answers, with " +
                     std::to_string(capacity_) + " places; next is " + Name(in);
  if (&in != &out) text += ", or " + Name(out);
  return text;
}

}  // namespace ringfeed::history
