#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "ringfeed/status.h"

namespace ringfeed {

/// How many failures a reader takes from its stores. Each request has its own patience, which
/// begins anew with every byte: a store that fails most requests could go on with that for ever. So
/// every kPatiences patiences it is looked at how many requests failed since the last look. If that
/// is more than kFree and more than succeeded, the run ends.
///
/// Of one request the first kCounted failures in a row count: what comes after them is one outage,
/// which the patience bounds. Thread safe.
class FailureBudget {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kPatiences = 4;
  static constexpr std::uint64_t kFree = 100;
  static constexpr int kCounted = 3;

  void OnSuccess() { successes_.fetch_add(1, std::memory_order_relaxed); }
  /// A request failed, so many times in a row. kResourceExhausted, with `last`, if the run is to
  /// end.
  Status OnFailure(int tries, std::chrono::milliseconds patience, Clock::time_point now,
                   const Status& last);

 private:
  std::atomic<std::uint64_t> successes_{0};  ///< since the last look, as the others
  std::mutex mutex_;                         // guards what follows
  std::uint64_t failures_ = 0;
  std::uint64_t counted_ = 0;
  Clock::time_point looked_{};
  Clock::time_point failed_{};  ///< the last failure
};

}  // namespace ringfeed
