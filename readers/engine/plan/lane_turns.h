#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ringfeed {

/// Whose block is planned next: lanes in turn, in a pass those that still have some of it. The
/// planner's alone.
class LaneTurns {
 public:
  explicit LaneTurns(std::size_t lanes) : in_pass_(lanes, true) {}

  std::size_t lanes() const { return in_pass_.size(); }
  bool IsInPass(std::size_t lane) const { return in_pass_[lane]; }
  /// The lane whose turn it is. There is one: see IsPassOver.
  std::size_t Due() {
    while (!in_pass_[due_]) due_ = Next(due_);
    return due_;
  }
  /// Without turns: where a look at all lanes begins.
  std::size_t first_look() const { return due_; }
  /// The turn goes to the lane after this one.
  void EndTurn(std::size_t lane) { due_ = Next(lane); }
  /// The lane has no more of this pass.
  void EndPassOf(std::size_t lane) { in_pass_[lane] = false; }
  bool IsPassOver() const {
    return std::none_of(in_pass_.begin(), in_pass_.end(), [](bool in) { return in; });
  }
  /// All lanes again, from the first one.
  void StartPass() {
    in_pass_.assign(in_pass_.size(), true);
    due_ = 0;
  }

 private:
  std::size_t Next(std::size_t lane) const { return (lane + 1) % in_pass_.size(); }

  std::vector<bool> in_pass_;
  std::size_t due_ = 0;
};

}  // namespace ringfeed
