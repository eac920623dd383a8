#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ringfeed {

/// How many ranges are asked for at a time: as many as raise the rate. It starts at 8. After four
/// round trips with all of them in use, four more are tried; if the rate in bytes per second does
/// not rise by half of what the ranges did, and by 5 %, the step is taken back, and tried again
/// some time later. A rate that falls without any error is how a queue in between says that it is
/// full (kvikio#978). If three times as much is under way as the rate and the round trip explain,
/// four fewer are tried in turn with four more, and kept if the rate stays: chance raised it else,
/// on a link that is full, up to the cap. An answer that says "slower" (429, 503) halves it. One
/// thread.
class InFlightRule {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kFirst = 8;
  static constexpr std::size_t kStep = 4;
  static constexpr std::size_t kMost = 64;

  InFlightRule() = default;
  /// For comparisons: always so many.
  explicit InFlightRule(std::size_t fixed) : limit_(fixed), is_fixed_(true) {}

  std::size_t limit() const { return limit_; }
  /// A range ended that was in flight from `begun` to `now`, of so many bytes; `in_flight` of them
  /// were, with it, and `first_byte` is how long its first byte took.
  void OnEnd(Clock::time_point now, Clock::duration first_byte, std::uint64_t bytes,
             std::size_t in_flight);
  /// The store asked for less.
  void OnThrottled(Clock::time_point now);

 private:
  enum class Trial : std::uint8_t { kNone, kMore, kFewer };

  void Decide(double rate, double bytes_each);
  bool IsWorthIt(double rate) const;

  std::size_t limit_ = kFirst;
  bool is_fixed_ = false;
  Clock::time_point window_begin_{};
  std::uint64_t window_bytes_ = 0;
  std::size_t window_ends_ = 0;
  bool is_full_ = false;  ///< the limit was reached in this window
  Clock::duration round_trip_{};
  Clock::duration least_round_trip_ = Clock::duration::max();
  double rate_before_ = 0;  ///< bytes per second before the step
  std::size_t limit_before_ = kFirst;
  Trial trial_ = Trial::kNone;  ///< what this window is
  bool tried_fewer_ = false;    ///< the last time
  std::size_t rests_ = 0;       ///< windows before the next step is tried
};

}  // namespace ringfeed
