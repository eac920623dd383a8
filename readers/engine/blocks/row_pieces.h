#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>

#include "ringfeed/record.h"

namespace ringfeed {

/// Cuts rows that a parser is called for into pieces that take it about a millisecond, so that a
/// stop is looked at in between (WorkerStop) and Close does not wait for all that is framed. The
/// first is of a few rows, each next one by what the one before took. One thread.
class RowPieces {
 public:
  /// Rows from now on: what was before them says nothing of the time.
  void Begin() { began_ = Clock::time_point(); }
  /// How many of `rows`, which are some, come next: one at least, and more than kMostBytes only
  /// where the first one alone is longer.
  std::size_t Next(std::span<const RecordSpan> rows) {
    const Clock::time_point now = Clock::now();
    if (began_ != Clock::time_point()) Adapt(now - began_);
    began_ = now;
    std::size_t bytes = rows.front().size;
    std::size_t count = 1;
    while (count < std::min(most_rows_, rows.size())) {
      bytes += rows[count].size;
      if (bytes > kMostBytes) break;
      ++count;
    }
    return count;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kFirstRows = 8;
  static constexpr std::size_t kMostRows = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  static constexpr std::chrono::milliseconds kLong{1};

  void Adapt(Clock::duration taken) {
    if (taken < kLong) {
      most_rows_ = std::min(2 * most_rows_, kMostRows);
    } else {
      most_rows_ = std::max<std::size_t>(most_rows_ / 4, 1);
    }
  }

  std::size_t most_rows_ = kFirstRows;
  Clock::time_point began_;
};

}  // namespace ringfeed
