#include "io/remote/in_flight_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>

namespace ringfeed {
namespace {

using Clock = InFlightRule::Clock;
using std::chrono::milliseconds;

constexpr std::uint64_t kRangeBytes = 1 << 20;

/// A link: ranges take its delay, and share its rate, which differs from round to round by up to
/// `noise` of it. Time is the test's.
class Link {
 public:
  Link(milliseconds delay, double bytes_per_s, double noise = 0)
      : delay_(delay), bytes_per_s_(bytes_per_s), noise_(noise) {}

  /// As many ranges as the rule allows, in flight together, again and again.
  void Run(InFlightRule* rule, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const std::size_t count = rule->limit();
      const double chance = std::uniform_real_distribution<>(1 - noise_, 1 + noise_)(random_);
      const double rate = std::min(bytes_per_s_, RateOf(count)) * chance;
      const double seconds = static_cast<double>(count * kRangeBytes) / rate;
      const auto took = std::max<Clock::duration>(
          delay_,
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
      now_ += took;
      for (std::size_t i = 0; i < count; ++i) rule->OnEnd(now_, delay_, kRangeBytes, count);
    }
  }
  /// More than this in flight at a time overflow a queue: the rate halves, without any error.
  void set_queue(std::size_t ranges) { queue_ = ranges; }
  Clock::time_point now() const { return now_; }

 private:
  double RateOf(std::size_t count) const {
    const double each =
        static_cast<double>(kRangeBytes) / std::chrono::duration<double>(delay_).count();
    const double all = each * static_cast<double>(count);
    return count > queue_ ? std::min(all, bytes_per_s_) / 2 : all;
  }

  const milliseconds delay_;
  const double bytes_per_s_;
  const double noise_;
  std::mt19937 random_{7};
  std::size_t queue_ = 1000;
  Clock::time_point now_ = Clock::time_point() + std::chrono::hours(1);
};

TEST(InFlightRuleTest, ItRisesUntilTheLinkIsFull) {
  InFlightRule rule;
  // 20 MB/s each over 50 ms: 30 of them fill 600 MB/s.
  Link link(milliseconds(50), 600e6);
  link.Run(&rule, 400);
  EXPECT_GE(rule.limit(), 24u);
  EXPECT_LE(rule.limit(), 40u);
}

TEST(InFlightRuleTest, ALinkThatIsFullAtOnceKeepsWhatItBeganWith) {
  InFlightRule rule;
  Link link(milliseconds(2), 100e6);
  link.Run(&rule, 400);
  EXPECT_LE(rule.limit(), InFlightRule::kFirst + InFlightRule::kStep);
}

TEST(InFlightRuleTest, NoiseOfAFullLinkDoesNotRaiseIt) {
  InFlightRule rule;
  Link link(milliseconds(50), 100e6, 0.3);
  int rounds_of_many = 0;
  for (int i = 0; i < 10'000; ++i) {
    link.Run(&rule, 1);
    // Four times what the link holds.
    if (static_cast<double>(rule.limit() * kRangeBytes) > 4 * 100e6 * 0.05) ++rounds_of_many;
  }
  EXPECT_LE(rounds_of_many, 100);
}

TEST(InFlightRuleTest, ARateThatFallsWithoutAnErrorTakesTheStepBack) {
  InFlightRule rule;
  Link link(milliseconds(50), 1e9);
  link.set_queue(20);
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    link.Run(&rule, 1);
    most = std::max(most, rule.limit());
  }
  EXPECT_LE(most, 24u);
  EXPECT_LE(rule.limit(), 24u);
}

TEST(InFlightRuleTest, AStoreThatAsksForLessGetsHalfOnceForAllAnswersOfOneRound) {
  InFlightRule rule;
  Link link(milliseconds(50), 1e9);
  link.Run(&rule, 100);
  const std::size_t before = rule.limit();
  for (int i = 0; i < 10; ++i) rule.OnThrottled(link.now() + milliseconds(i));
  EXPECT_EQ(rule.limit(), before / 2);
  rule.OnThrottled(link.now() + milliseconds(200));
  EXPECT_EQ(rule.limit(), before / 4);
  for (int i = 1; i < 20; ++i) rule.OnThrottled(link.now() + milliseconds(200 + 200 * i));
  EXPECT_EQ(rule.limit(), 1u);
}

TEST(InFlightRuleTest, MoreThanTheReaderAsksForIsNotTried) {
  InFlightRule rule;
  Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  for (int i = 0; i < 1000; ++i) {
    now += milliseconds(10);
    rule.OnEnd(now, milliseconds(10), kRangeBytes, 2);
  }
  EXPECT_EQ(rule.limit(), InFlightRule::kFirst);
}

TEST(InFlightRuleTest, ItNeverExceedsItsCap) {
  InFlightRule rule;
  Link link(milliseconds(500), 1e12);
  link.Run(&rule, 1000);
  EXPECT_EQ(rule.limit(), InFlightRule::kMost);
}

}  // namespace
}  // namespace ringfeed
