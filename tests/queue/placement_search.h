#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/queue/history_checker.h"

namespace ringfeed::history {

inline constexpr std::size_t kNoElement = static_cast<std::size_t>(-1);

// What has a place in the order of a queue's items: an item, or an answer that tells how many items
// there were. It goes in between in_first and in_last, and out between out_first and out_last; an
// answer `empty` is an item that goes out when it goes in, an answer `full` only goes in.
struct Element {
  enum class Kind : std::uint8_t { kItem, kEmpty, kFull };
  Kind kind = Kind::kItem;
  std::uint64_t value = 0;
  Stamp in_first = 0;
  Stamp in_last = 0;
  Stamp out_first = kNever;  // an item that is never popped: kNever twice
  Stamp out_last = kNever;
  std::array<std::size_t, 2> after{kNoElement, kNoElement};  // elements that come before it
};

// The elements that have no place yet, in the order of one of their stamps. Taking out and putting
// back cost one step each; put back in the opposite order.
class UnplacedList {
 public:
  UnplacedList(const std::vector<Element>& elements, Stamp Element::*key);

  std::size_t First() const { return next_.back(); }  // kEnd() where none is left
  std::size_t Next(std::size_t element) const { return next_[element]; }
  std::size_t End() const { return next_.size() - 1; }
  void TakeOut(std::size_t element) {
    next_[previous_[element]] = next_[element];
    previous_[next_[element]] = previous_[element];
  }
  void PutBack(std::size_t element) {
    next_[previous_[element]] = element;
    previous_[next_[element]] = element;
  }

 private:
  std::vector<std::size_t> next_;  // the last entry stands for both ends
  std::vector<std::size_t> previous_;
};

// Looks for an order of the elements in which each can have its moments.
//
// In a given order the earliest moments are the best ones: an item goes in after the one before it
// and after the item `capacity` places before it has gone out; it goes out after it went in and
// after the one before it went out. `empty` comes after all before it went out. `full` comes when
// the one before it is in, and holds back the item that stands `capacity` places before.
//
// Two rules keep the search short. An answer that may stand here and holds nothing back stands
// here. Of two neighbours that may change places, the one whose four stamps are all earlier stands
// first: no other element is worse off by that.
class PlacementSearch {
 public:
  PlacementSearch(std::vector<Element> elements, std::size_t capacity);

  HistoryVerdict Run(std::size_t max_steps);

 private:
  // One place of the order, and what to put back when the search leaves it.
  struct Place {
    std::vector<std::size_t> candidates;
    std::size_t next = 0;     // of the candidates
    std::uint64_t state = 0;  // before this place was filled
    std::size_t chosen = kNoElement;
    Stamp last_in = 0;
    Stamp last_out = 0;
    std::size_t empty_from = 0;
    std::vector<Stamp> held_back;  // outs_ from `capacity` places before on, as they were
  };

  std::vector<std::size_t> Candidates() const;
  bool Fits(std::size_t element) const;
  bool CostsNothing(std::size_t element) const;
  bool MayBeHeldBack() const;
  bool BetterBefore(std::size_t element, const Place& place) const;
  void LeaveOutNeedless(std::vector<std::size_t>& candidates) const;
  bool Put(std::size_t element, Place& place);
  bool PutItem(const Element& item);
  bool PutFull(const Element& full, Place& place);
  void Undo(Place& place);
  void Open();
  std::uint64_t State(const std::vector<std::size_t>& candidates) const;
  std::string Stuck() const;

  const std::vector<Element> elements_;
  const std::size_t capacity_;
  std::size_t fulls_left_ = 0;  // that have no place yet
  UnplacedList by_in_first_;
  UnplacedList by_in_last_;
  UnplacedList by_out_last_;
  std::vector<std::uint8_t> placed_;
  std::vector<std::uint64_t> marks_;  // of a set of elements: the exclusive or of their marks
  std::uint64_t placed_mark_ = 0;
  std::vector<Place> places_;
  // Of the items in their order.
  std::vector<Stamp> outs_;
  std::vector<std::size_t> items_;
  Stamp last_in_;
  Stamp last_out_;
  std::size_t empty_from_ = 0;  // items before the last `empty`
  std::unordered_set<std::uint64_t> failed_;
  // How far it came, and what had to find a place there.
  std::size_t deepest_ = 0;
  std::array<std::size_t, 2> stuck_at_{};
};

}  // namespace ringfeed::history
