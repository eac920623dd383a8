#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "ringfeed/compat/py_reader.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/queue/blocking_queue.h"
#include "tests/gpu/feed/counting_rows.h"

// Next until a deadline.

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

constexpr Deadline kPast{};

Deadline In(int ms) { return DeadlineAfter(milliseconds(ms)); }

FeedOptions On(std::size_t devices) {
  FeedOptions options;
  options.backend = EmulatedDevices::Open(static_cast<int>(devices));
  return options;
}

/// A feed of what the test pushes.
class FeedDeadlineTest : public testing::Test {
 protected:
  FeedDeadlineTest() { holder_->InitOnce(64, {{"number", DType::kInt64, {}}}); }
  ~FeedDeadlineTest() override { holder_->GetQueue()->Close(); }

  Reader Pushed() const { return Batch(OpenPyReader(holder_), {.size = 2}); }
  void Push(std::size_t batches) {
    CountingRows rows(static_cast<std::int64_t>(2 * batches));
    Instance row;
    Status status;
    while (rows.ReadNext(&row, {}, &status) == ReadResult::kRecord) {
      ASSERT_TRUE(holder_->GetQueue()->Push(row));
    }
  }

  const std::shared_ptr<LoDTensorBlockingQueueHolder> holder_ =
      std::make_shared<LoDTensorBlockingQueueHolder>();
  DeviceLease lease_;
  Status status_;
};

TEST_F(FeedDeadlineTest, NextComesBackAtItsDeadlineAndNothingIsLost) {
  DeviceFeed feed(Pushed(), On(2));
  for (std::uint64_t number = 0; number < 6; ++number) {
    const auto before = QueueClock::now();
    ASSERT_EQ(feed.TryNext(&lease_, &status_, In(25)), ReadResult::kTimeout);
    EXPECT_GE(QueueClock::now() - before, milliseconds(25));
    EXPECT_FALSE(lease_);
    EXPECT_TRUE(status_.ok());
    EXPECT_EQ(feed.TryNext(number % 2, &lease_, &status_, kPast), ReadResult::kTimeout);
    Push(1);
    ASSERT_EQ(feed.TryNext(&lease_, &status_, In(60'000)), ReadResult::kRecord);
    EXPECT_EQ(lease_.number(), number);
  }
  holder_->GetQueue()->Close();
  EXPECT_EQ(feed.TryNext(&lease_, &status_, In(60'000)), ReadResult::kEnd);
  EXPECT_GT(feed.Stats().devices[0].wait_s + feed.Stats().devices[1].wait_s, 0.1);
}

TEST_F(FeedDeadlineTest, NextDoesNotWaitLongerForAnotherThreadsNext) {
  DeviceFeed feed(Pushed(), On(1));
  auto other = std::async(std::launch::async, [&] { return feed.Next()->number(); });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(feed.TryNext(&lease_, &status_, In(20)), ReadResult::kTimeout);
  Push(2);
  EXPECT_EQ(other.get(), 0u);
  ASSERT_EQ(feed.TryNext(&lease_, &status_, In(60'000)), ReadResult::kRecord);
  EXPECT_EQ(lease_.number(), 1u);
}

TEST(FeedPatienceTest, WhoHoldsAllLeasesIsToldSoBeforeTheDeadline) {
  DeviceFeed feed(CountingBatches(200, 10), On(1));
  std::vector<DeviceLease> held(3);
  DeviceLease lease;
  Status status;
  for (DeviceLease& each : held) {
    ASSERT_EQ(feed.TryNext(&each, &status, In(60'000)), ReadResult::kRecord);
  }
  EXPECT_EQ(feed.TryNext(&lease, &status, In(60'000)), ReadResult::kFailed);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  held.pop_back();
  ASSERT_EQ(feed.TryNext(&lease, &status, In(60'000)), ReadResult::kRecord);
  EXPECT_EQ(lease.number(), 3u);
}

/// Calls of Next with short deadlines, and how long they took where the last one failed.
struct ShortCalls {
  std::size_t timeouts = 0;
  QueueClock::duration in_vain{};    ///< since the first of those that timed out began
  QueueClock::duration last_call{};  ///< the failed one alone
};

/// Until the patience has run out.
ShortCalls CallUntilFailed(DeviceFeed& feed, Deadline most) {
  ShortCalls calls;
  DeviceLease lease;
  Status status;
  Deadline since{};
  while (true) {
    const Deadline before = QueueClock::now();
    const ReadResult result = feed.TryNext(0, &lease, &status, In(5));
    const Deadline now = QueueClock::now();
    if (result == ReadResult::kFailed) {
      EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
      calls.last_call = now - before;
      if (calls.timeouts > 0) calls.in_vain = now - since;
      return calls;
    }
    if (result != ReadResult::kTimeout) calls.timeouts = 0;
    if (result == ReadResult::kTimeout && calls.timeouts++ == 0) since = before;
    if (now < most) continue;
    ADD_FAILURE() << "the patience does not run out";
    return calls;
  }
}

constexpr milliseconds kPatience{80};

DeviceFeed ImpatientFeed() {
  FeedOptions options = On(2);
  options.patience_ms = kPatience.count();
  return DeviceFeed(CountingBatches(2000, 10), options);
}

TEST(FeedPatienceTest, APatienceRunsOutOverCallsWithShortDeadlines) {
  DeviceFeed feed = ImpatientFeed();
  const Deadline most = In(60'000);
  // Nobody takes what device 1 has. A call that took so long by itself, as a busy machine may hold
  // it up, fails without those before it: then once more, as the patience begins anew.
  ShortCalls calls;
  do {
    calls = CallUntilFailed(feed, most);
    ASSERT_LT(QueueClock::now(), most);
    EXPECT_GE(std::max(calls.in_vain, calls.last_call), kPatience);
  } while (calls.last_call >= kPatience);
  EXPECT_GT(calls.timeouts, 0u);
  // Once it is served, the first goes on.
  DeviceLease lease;
  Status status;
  ASSERT_EQ(feed.TryNext(1, &lease, &status, In(60'000)), ReadResult::kRecord);
  ReadResult result = ReadResult::kFailed;
  while (result == ReadResult::kFailed && QueueClock::now() < most) {
    const Deadline before = QueueClock::now();
    result = feed.TryNext(0, &lease, &status, In(60'000));
    // The feed's thread, too, may have got no processor for so long.
    if (result == ReadResult::kFailed) {
      EXPECT_GE(QueueClock::now() - before, kPatience) << status.ToString();
    }
  }
  EXPECT_EQ(result, ReadResult::kRecord);
}

TEST(FeedPatienceTest, APatienceThatRanOutBeginsAnew) {
  DeviceFeed feed = ImpatientFeed();
  const Deadline most = In(60'000);
  (void)CallUntilFailed(feed, most);
  for (int again = 0; again < 3; ++again) {
    const ShortCalls calls = CallUntilFailed(feed, most);
    EXPECT_GE(std::max(calls.in_vain, calls.last_call), kPatience);
  }
}

}  // namespace
}  // namespace ringfeed
