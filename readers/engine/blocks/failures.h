#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/user_call.h"
#include "readers/parsers/refusal.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A record that its parser refused, by its place among others.
struct RefusedRow {
  std::uint32_t row = 0;
  Refusal why;
  DataPlace place;
};

/// Tells a parser that fits no record, which is the program's mistake, from damage: such a parser
/// refuses the first kEnough records of a run, or all if there are fewer, for the same reason. It
/// hears of records in their order, so that threads do not change the result. One thread at a time,
/// except open.
class Refusals {
 public:
  static constexpr std::size_t kEnough = 100;

  /// `asked`: whether the result is wanted.
  explicit Refusals(bool asked) : open_(asked) {}

  /// Whether the result is open: then the reasons of refusals must be noted. Once false, always
  /// false.
  bool open() const { return open_.load(std::memory_order_relaxed); }
  /// The next record was taken, or failed for another reason.
  void Close() { open_.store(false, std::memory_order_relaxed); }
  /// The next records were refused. Returns the mistake, or OK.
  Status Refuse(const std::vector<RefusedRow>& rows);
  /// There are no more records. Returns the mistake, or OK.
  Status End();
  /// Whether a run's failure is that mistake.
  static bool IsMistake(const Status& status);

 private:
  Status Mistake(const std::string& which);

  std::atomic<bool> open_;  ///< may be a moment old: what is noted too late is not used
  std::size_t refused_ = 0;
  RefusedRow first_;
};

}  // namespace ringfeed
