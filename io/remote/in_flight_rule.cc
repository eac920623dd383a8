#include "io/remote/in_flight_rule.h"

#include <algorithm>

namespace ringfeed {
namespace {

constexpr int kRoundTrips = 4;
constexpr double kWorthIt = 1.05;
/// After a step that was taken back, and after the store asked for less.
constexpr std::size_t kRests = 16;
/// Shorter windows tell chance, not a rate.
constexpr std::chrono::milliseconds kShortestWindow{20};

}  // namespace

void InFlightRule::OnEnd(Clock::time_point now, Clock::duration first_byte, std::uint64_t bytes,
                         std::size_t in_flight) {
  if (window_begin_ == Clock::time_point()) window_begin_ = now - first_byte;
  round_trip_ = round_trip_ == Clock::duration() ? first_byte : (7 * round_trip_ + first_byte) / 8;
  window_bytes_ += bytes;
  ++window_ends_;
  is_full_ = is_full_ || in_flight >= limit_;
  const Clock::duration length = now - window_begin_;
  const Clock::duration wanted =
      std::max<Clock::duration>(kShortestWindow, kRoundTrips * round_trip_);
  if (length < wanted || window_ends_ < limit_) return;
  Decide(static_cast<double>(window_bytes_) / std::chrono::duration<double>(length).count());
  window_begin_ = now;
  window_bytes_ = 0;
  window_ends_ = 0;
  is_full_ = false;
}

void InFlightRule::Decide(double rate) {
  if (tries_step_) {
    tries_step_ = false;
    if (rate < kWorthIt * rate_before_) {
      limit_ -= std::min(limit_ - 1, kStep);
      rests_ = kRests;
      return;
    }
  }
  if (rests_ > 0) {
    --rests_;
    return;
  }
  // More than are asked for would change nothing.
  if (!is_full_ || limit_ >= kMost) return;
  rate_before_ = rate;
  limit_ = std::min(kMost, limit_ + kStep);
  tries_step_ = true;
}

void InFlightRule::OnThrottled(Clock::time_point now) {
  // The answers to what was sent together are one word.
  if (rests_ == kRests &&
      now - window_begin_ < std::max<Clock::duration>(kShortestWindow, round_trip_)) {
    return;
  }
  limit_ = std::max<std::size_t>(1, limit_ / 2);
  tries_step_ = false;
  rests_ = kRests;
  window_begin_ = now;
  window_bytes_ = 0;
  window_ends_ = 0;
  is_full_ = false;
}

}  // namespace ringfeed
