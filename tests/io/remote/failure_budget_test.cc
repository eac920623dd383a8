#include "io/remote/failure_budget.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace ringfeed {
namespace {

using std::chrono::seconds;

const Status kLast(StatusCode::kIoError, "HTTP 500");

/// A reader with a minute of patience. Time is the test's.
class FailureBudgetTest : public testing::Test {
 protected:
  /// In so many seconds.
  Status Fail(int count, int tries, int seconds_each) {
    for (int i = 0; i < count; ++i) {
      now_ += seconds(seconds_each);
      Status status = budget_.OnFailure(tries, seconds(60), now_, kLast);
      if (!status.ok()) return status;
    }
    return {};
  }
  void Succeed(int count) {
    for (int i = 0; i < count; ++i) budget_.OnSuccess();
  }

  FailureBudget budget_;
  FailureBudget::Clock::time_point now_ =
      FailureBudget::Clock::time_point() + std::chrono::hours(1);
};

TEST_F(FailureBudgetTest, MoreFailuresThanSuccessesEndTheRun) {
  Succeed(119);
  const Status status = Fail(300, 1, 2);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the store failed 121 of 240 requests within 4 times remote_patience_ms; "
            "the last failure: HTTP 500");
}

TEST_F(FailureBudgetTest, FewerGoOnForever) {
  for (int i = 0; i < 50; ++i) {
    Succeed(130);
    EXPECT_TRUE(Fail(120, 1, 2).ok());
  }
}

TEST_F(FailureBudgetTest, FewOfATimeGoOnWithoutSuccesses) { EXPECT_TRUE(Fail(1'000, 1, 3).ok()); }

TEST_F(FailureBudgetTest, AnOutageIsBoundedByThePatienceAlone) {
  constexpr int kInFlight = 100;
  Succeed(3 * kInFlight);
  for (int tries = 1; tries < 17; ++tries) {
    EXPECT_TRUE(Fail(kInFlight, tries, 0).ok());
    now_ += seconds(3);
  }
  Succeed(kInFlight);
  now_ += seconds(300);
  EXPECT_TRUE(Fail(1, 1, 1).ok());
}

TEST_F(FailureBudgetTest, AnOutageThatIsLongOverEndsNoRun) {
  for (int tries = 1; tries <= 3; ++tries) EXPECT_TRUE(Fail(64, tries, 0).ok());
  Succeed(64);
  now_ += std::chrono::hours(2);
  EXPECT_EQ(Fail(1, 1, 0).ToString(), "ok");
}

}  // namespace
}  // namespace ringfeed
