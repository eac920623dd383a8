#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringfeed::checker {

// The hashes of the states that an exploration met, each with the least preemptions that led to it.
// Every operation of every schedule is looked up here, in tables of many millions: the entries
// stand side by side, where a map of nodes takes a miss of the cache more for each.
class SeenStates {
 public:
  // Whether `state` was met with as few preemptions or fewer. If not, it is from now on.
  bool Covers(std::uint64_t state, std::uint8_t preemptions) {
    if (size_ * 2 >= entries_.size()) Grow();
    Entry& entry = Find(entries_, state);
    if (entry.is_used && entry.preemptions <= preemptions) return true;
    if (!entry.is_used) ++size_;
    entry = {.state = state, .preemptions = preemptions, .is_used = true};
    return false;
  }

  std::size_t size() const { return size_; }

 private:
  struct Entry {
    std::uint64_t state = 0;
    std::uint8_t preemptions = 0;
    bool is_used = false;
  };

  // The entry of `state`, or the free one where it belongs.
  static Entry& Find(std::vector<Entry>& entries, std::uint64_t state) {
    std::size_t at = state & (entries.size() - 1);
    while (entries[at].is_used && entries[at].state != state) at = (at + 1) & (entries.size() - 1);
    return entries[at];
  }

  void Grow() {
    std::vector<Entry> larger(entries_.empty() ? 1024 : entries_.size() * 2);
    for (const Entry& entry : entries_) {
      if (entry.is_used) Find(larger, entry.state) = entry;
    }
    entries_.swap(larger);
  }

  std::vector<Entry> entries_;  // a power of two of them, at most half used
  std::size_t size_ = 0;
};

}  // namespace ringfeed::checker
