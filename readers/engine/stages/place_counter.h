#pragma once

#include <cstdint>

#include "readers/order/plan_clock.h"

namespace ringfeed {

/// At which places the rows stand that a keeper of the clock is given. It counts them, or, behind
/// another keeper, asks the clock before each call. The planner's alone.
class PlaceCounter {
 public:
  /// Keeps the clock.
  explicit PlaceCounter(PlanClock* clock)
      : clock_(clock), told_(clock->kept()), pass_(clock->here().pass), next_(clock->here().place) {
    clock_->Keep();
  }

  /// A call of so many rows begins.
  void BeginCall(std::uint64_t rows) {
    if (told_) {
      pass_ = clock_->here().pass;
      next_ = clock_->here().place;
    }
    first_ = next_;
    next_ += rows;
  }
  void EndPass() {
    ++pass_;
    first_ = next_ = 0;
  }

  std::uint64_t pass() const { return pass_; }
  /// Between calls: the place of what comes next.
  std::uint64_t next() const { return next_; }
  /// The place of row `row` of the call; of its number of rows: of what comes next.
  std::uint64_t At(std::uint64_t row) const { return first_ + row; }
  /// What is handed on next begins with that row.
  void SetClock(std::uint64_t row) { clock_->AtPlace(pass_, At(row)); }

 private:
  PlanClock* const clock_;
  const bool told_;
  std::uint64_t pass_;
  std::uint64_t first_ = 0;
  std::uint64_t next_;
};

}  // namespace ringfeed
