#include "gpu/feed/copy_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringfeed {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::int64_t kMicro = 1'000;
constexpr std::int64_t kMilli = 1'000'000;

/// A link with one copy at a time, and a clock that moves from look to look alone.
class CopyPaceTest : public testing::Test {
 protected:
  /// Enqueues a copy that takes so long, and looks at it as the pace says until it is done.
  void CopyAndLook(std::size_t bytes, std::int64_t takes_ns) {
    const std::int64_t done_ns = now_ + takes_ns;
    pace_.NoteEnqueued(now_, bytes, 1);
    looks_ = 0;
    do {
      const std::int64_t look_ns = pace_.NextLook(now_);
      ASSERT_GE(look_ns - now_, CopyPace::kShortestNapNs);
      ASSERT_LE(look_ns - now_, CopyPace::kLongestNapNs);
      now_ = look_ns;
      ++looks_;
    } while (now_ < done_ns);
    late_ns_ = now_ - done_ns;
    pace_.NoteDone(now_, 1);
  }
  void Learn(std::size_t bytes, std::int64_t takes_ns) {
    for (std::size_t i = 0; i < 2 * CopyPace::kRates; ++i) CopyAndLook(bytes, takes_ns);
  }

  CopyPace pace_;
  std::int64_t now_ = 5;
  int looks_ = 0;             ///< of the last copy
  std::int64_t late_ns_ = 0;  ///< that it was seen
};

TEST_F(CopyPaceTest, WithoutACopyNobodyLooks) {
  EXPECT_EQ(pace_.NextLook(7), CopyPace::kNever);
  CopyAndLook(kMiB, 20 * kMicro);
  EXPECT_EQ(pace_.NextLook(now_), CopyPace::kNever);
}

TEST_F(CopyPaceTest, ACopyOfAKnownRateIsSeenByAFewLooks) {
  for (const std::size_t bytes : {kMiB, 16 * kMiB}) {
    const auto takes_ns = static_cast<std::int64_t>(bytes / 50);  // 50 bytes a nanosecond
    Learn(bytes, takes_ns);
    EXPECT_LE(looks_, 3) << bytes;
    EXPECT_LE(late_ns_, takes_ns / 4 + CopyPace::kShortestNapNs) << bytes;
  }
}

TEST_F(CopyPaceTest, TheRateHoldsForCopiesOfOtherSizes) {
  Learn(kMiB, 100 * kMicro);
  CopyAndLook(8 * kMiB, 800 * kMicro);
  EXPECT_LE(looks_, 3);
  EXPECT_LE(late_ns_, 200 * kMicro);
}

TEST_F(CopyPaceTest, ACopyThatWaitsForAStepIsSeenAQuarterLateAtMostByFewLooks) {
  Learn(kMiB, 20 * kMicro);
  CopyAndLook(kMiB, 8 * kMilli);
  EXPECT_LE(looks_, 32);  // a look every 100 us would be 80, one every 30 us 266
  EXPECT_LE(late_ns_, kMilli);
  CopyAndLook(kMiB, 100 * kMilli);
  EXPECT_LE(looks_, 130);
  EXPECT_LE(late_ns_, CopyPace::kLongestNapNs);
}

TEST_F(CopyPaceTest, ASlowStretchIsForgotten) {
  Learn(kMiB, 5 * kMilli);
  for (std::size_t i = 0; i < 5 * CopyPace::kRates; ++i) CopyAndLook(kMiB, 20 * kMicro);
  EXPECT_LE(late_ns_, 20 * kMicro);
}

TEST_F(CopyPaceTest, AFastStretchIsForgotten) {
  Learn(kMiB, 20 * kMicro);
  Learn(kMiB, kMilli);
  EXPECT_LE(looks_, 3);
}

TEST_F(CopyPaceTest, AFewFastCopiesDoNotHaveTheOthersLookedAtTooEarly) {
  // As on a device that shares its processor: one copy in eight takes a third of the usual time.
  int looks = 0;
  std::int64_t late_ns = 0;
  constexpr int kCopies = 160;
  for (int copy = 0; copy < kCopies; ++copy) {
    const std::int64_t takes_ns = copy % 8 == 0 ? 300 * kMicro : (850 + copy * 53 % 200) * kMicro;
    CopyAndLook(8 * kMiB, takes_ns);
    looks += looks_;
    late_ns = std::max(late_ns, late_ns_);
  }
  EXPECT_LE(looks, 3 * kCopies);
  EXPECT_LE(late_ns, 700 * kMicro);
}

TEST_F(CopyPaceTest, WhatOneLookSeesIsOneStretchOfTime) {
  for (int call = 0; call < 4; ++call) pace_.NoteEnqueued(0, kMiB, 2);
  pace_.NoteDone(400 * kMicro, 8);  // a MiB in 100 us, not in none
  pace_.NoteEnqueued(400 * kMicro, kMiB, 1);
  EXPECT_EQ(pace_.NextLook(400 * kMicro), 400 * kMicro + 75 * kMicro);
}

TEST_F(CopyPaceTest, ACopyBehindOthersBeginsWhenTheseWereSeenDone) {
  pace_.NoteEnqueued(0, kMiB, 1);
  pace_.NoteDone(80 * kMicro, 1);
  pace_.NoteEnqueued(80 * kMicro, kMiB, 1);
  pace_.NoteEnqueued(80 * kMicro, kMiB, 1);
  pace_.NoteDone(160 * kMicro, 1);
  EXPECT_EQ(pace_.NextLook(160 * kMicro), 160 * kMicro + 60 * kMicro);
}

TEST_F(CopyPaceTest, BatchesThatLostTheirBytesTellNoRate) {
  pace_.NoteEnqueued(0, 0, 1);
  pace_.NoteDone(5 * kMilli, 1);
  pace_.NoteEnqueued(5 * kMilli, kMiB, 1);
  EXPECT_EQ(pace_.NextLook(5 * kMilli), 5 * kMilli + CopyPace::kShortestNapNs);
}

}  // namespace
}  // namespace ringfeed
