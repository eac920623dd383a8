// What answers say, and when a request is sent again.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "io/remote/content_range.h"
#include "io/remote/http_client.h"

namespace ringfeed {
namespace {

using Clock = RetryRule::Clock;
using std::chrono::milliseconds;

TEST(ContentRangeTest, ARangeHasItsEndAndItsSize) {
  const auto range = ReadContentRange("bytes 10-19/100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 10u);
  EXPECT_EQ(range->end, 20u);
  EXPECT_EQ(range->size, 100u);
  EXPECT_FALSE(ReadContentRange("bytes 0-0/*")->size);
  EXPECT_EQ(ReadContentRange("bytes */0")->size, 0u);
}

TEST(ContentRangeTest, WhatIsNoRangeIsNone) {
  for (const char* text : {"", "bytes", "bytes ", "bytes 1-2", "bytes 2-1/5", "bytes 0-9/5",
                           "bytes -1-2/5", "bytes 1-/5", "items 0-1/2", "bytes 0-1/2x",
                           "bytes 0-1/ 2", "bytes 0-9999999999999999999/*", "bytes 0-1/-2",
                           "bytes 0-1/99999999999999999999", "bytes 0-1,4-5/9"}) {
    EXPECT_FALSE(ReadContentRange(text)) << text;
  }
}

TEST(ReadLengthTest, OnlyAWholeNumberIsALength) {
  EXPECT_EQ(ReadLength("0"), 0u);
  EXPECT_EQ(ReadLength("9223372036854775807"), 9223372036854775807u);
  for (const char* text : {"", "-1", "-0", "+1", "1 ", " 1", "0x1", "9223372036854775808"}) {
    EXPECT_FALSE(ReadLength(text)) << text;
  }
}

bool Again(RetryRule* rule, std::string_view retry_after, RetryRule::Clock::time_point now,
           RetryRule::Clock::time_point* when) {
  const Status failure(StatusCode::kIoError, "no connection");
  return rule->Meet(failure, "an object", retry_after, now, when).ok();
}

TEST(RetryRuleTest, ItGivesUpAfterItsPatienceAndNotBefore) {
  RetryRule rule(1000);
  Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  const Clock::time_point begun = now;
  Clock::time_point when;
  int tries = 0;
  while (Again(&rule, "", now, &when)) {
    ASSERT_GT(when, now);
    ASSERT_LE(when, begun + milliseconds(1000));
    now = when;
    ASSERT_LT(++tries, 100);
  }
  EXPECT_GE(now, begun + milliseconds(1000));
  EXPECT_GE(tries, 3);
}

TEST(RetryRuleTest, BytesBeginThePatienceAnew) {
  RetryRule rule(1000);
  Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  Clock::time_point when;
  ASSERT_TRUE(Again(&rule, "", now, &when));
  now += milliseconds(1500);
  rule.Progress();
  EXPECT_TRUE(Again(&rule, "", now, &when));
  now += milliseconds(1500);
  EXPECT_FALSE(Again(&rule, "", now, &when));
}

TEST(RetryRuleTest, RetryAfterIsWaitedForButNoLongerThanThePatience) {
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  Clock::time_point when;
  RetryRule patient(60'000);
  ASSERT_TRUE(Again(&patient, "7", now, &when));
  EXPECT_EQ(when, now + milliseconds(7000));
  RetryRule hasty(500);
  ASSERT_TRUE(Again(&hasty, "7", now, &when));
  EXPECT_EQ(when, now + milliseconds(500));
  RetryRule odd(60'000);
  ASSERT_TRUE(Again(&odd, "Wed, 21 Oct 2015 07:28:00 GMT", now, &when));
  EXPECT_LT(when, now + milliseconds(1000));
}

TEST(IsPassingTest, ThoseThatSayLaterPass) {
  for (const int status : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(IsPassing(status)) << status;
  for (const int status : {200, 301, 400, 401, 403, 404, 412, 416, 501, 505}) {
    EXPECT_FALSE(IsPassing(status)) << status;
  }
}

}  // namespace
}  // namespace ringfeed
