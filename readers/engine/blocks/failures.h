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

/// Tells a parser that fits no record, which is a mistake of the program's, from damage: it refuses
/// the first kEnough records of a run, or all if there are fewer, for the same reason. Told of
/// records in their order, so that it does not depend on threads. One thread at a time, but for
/// open.
class Refusals {
 public:
  static constexpr std::size_t kEnough = 100;

  /// `asked`: whether anybody wants to know.
  explicit Refusals(bool asked) : open_(asked) {}

  /// Whether it is not known yet: then why records are refused is to be noted. Once false, for
  /// ever.
  bool open() const { return open_.load(std::memory_order_relaxed); }
  /// The next record was taken, or failed of something else.
  void Close() { open_.store(false, std::memory_order_relaxed); }
  /// The next records were refused. The mistake, or OK.
  Status Refuse(const std::vector<RefusedRow>& rows);
  /// There are no more records. The mistake, or OK.
  Status End();
  /// Whether that is what a run failed with.
  static bool IsMistake(const Status& status);

 private:
  Status Mistake(const std::string& which);

  std::atomic<bool> open_;  ///< may be a moment old: what is noted too late is not used
  std::size_t refused_ = 0;
  RefusedRow first_;
};

}  // namespace ringfeed
