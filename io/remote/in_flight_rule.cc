#include "io/remote/in_flight_rule.h"

#include <algorithm>
#include <utility>

namespace ringfeed {
namespace {

constexpr int kRoundTrips = 4;
constexpr double kLeastRise = 0.05;
/// In flight, of what the rate brings in a round trip.
constexpr double kEnough = 3;
/// After a step that was taken back, and after the store asked for less.
constexpr std::size_t kRests = 16;
/// Shorter windows tell chance, not a rate.
constexpr std::chrono::milliseconds kShortestWindow{20};

}  // namespace

void InFlightRule::OnEnd(Clock::time_point now, Clock::duration first_byte, std::uint64_t bytes,
                         std::size_t in_flight) {
  if (is_fixed_) return;
  if (window_begin_ == Clock::time_point()) window_begin_ = now - first_byte;
  round_trip_ = round_trip_ == Clock::duration() ? first_byte : (7 * round_trip_ + first_byte) / 8;
  least_round_trip_ = std::min(least_round_trip_, first_byte);
  window_bytes_ += bytes;
  ++window_ends_;
  is_full_ = is_full_ || in_flight >= limit_;
  const Clock::duration length = now - window_begin_;
  const Clock::duration wanted =
      std::max<Clock::duration>(kShortestWindow, kRoundTrips * round_trip_);
  if (length < wanted || window_ends_ < limit_) return;
  const auto all = static_cast<double>(window_bytes_);
  Decide(all / std::chrono::duration<double>(length).count(),
         all / static_cast<double>(window_ends_));
  window_begin_ = now;
  window_bytes_ = 0;
  window_ends_ = 0;
  is_full_ = false;
}

// Whether the larger one of the two limits is.
bool InFlightRule::IsWorthIt(double rate) const {
  const auto [fewer, more] = std::minmax(limit_, limit_before_);
  const auto [without, with] =
      trial_ == Trial::kMore ? std::pair(rate_before_, rate) : std::pair(rate, rate_before_);
  const double rise = static_cast<double>(more - fewer) / static_cast<double>(fewer);
  return with >= without * (1 + std::max(kLeastRise, rise / 2));
}

void InFlightRule::Decide(double rate, double bytes_each) {
  if (trial_ != Trial::kNone) {
    const bool keeps = IsWorthIt(rate) == (trial_ == Trial::kMore);
    trial_ = Trial::kNone;
    if (!keeps) {
      limit_ = limit_before_;
      rests_ = kRests;
      return;
    }
  }
  if (rests_ > 0) {
    --rests_;
    return;
  }
  // More than are asked for would change nothing.
  if (!is_full_) return;
  const double in_flight = bytes_each * static_cast<double>(limit_);
  const double round_trip_s = std::chrono::duration<double>(least_round_trip_).count();
  const bool is_enough = limit_ > kFirst && in_flight > kEnough * rate * round_trip_s;
  tried_fewer_ = is_enough && !tried_fewer_;
  if (!tried_fewer_ && limit_ >= kMost) return;
  rate_before_ = rate;
  limit_before_ = limit_;
  limit_ = tried_fewer_ ? limit_ - kStep : std::min(kMost, limit_ + kStep);
  trial_ = tried_fewer_ ? Trial::kFewer : Trial::kMore;
}

void InFlightRule::OnThrottled(Clock::time_point now) {
  if (is_fixed_) return;
  // The answers to what was sent together are one word.
  if (rests_ == kRests &&
      now - window_begin_ < std::max<Clock::duration>(kShortestWindow, round_trip_)) {
    return;
  }
  limit_ = std::max<std::size_t>(1, limit_ / 2);
  trial_ = Trial::kNone;
  rests_ = kRests;
  window_begin_ = now;
  window_bytes_ = 0;
  window_ends_ = 0;
  is_full_ = false;
}

}  // namespace ringfeed
