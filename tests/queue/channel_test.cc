#include "ringfeed/queue/channel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

TEST(Channel, SenderBlocksAtCapAndIsFreedByClose) {
  Channel<int> channel(3);
  EXPECT_EQ(channel.Cap(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(channel.Push(int{i}));
  std::thread sender([&] { EXPECT_FALSE(channel.Push(99)); });
  std::this_thread::sleep_for(milliseconds(3));
  EXPECT_EQ(channel.Size(), 3U);
  channel.Close();
  sender.join();
  EXPECT_TRUE(channel.IsClosed());
  int item = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(channel.Pop(item), QueueResult::kOk);
    EXPECT_EQ(item, i);
  }
  EXPECT_EQ(channel.Pop(item), QueueResult::kClosed);
  EXPECT_TRUE(channel.status().ok());
}

// No default constructor, and no copy.
struct OnlyMoved {
  explicit OnlyMoved(int value) : number(std::make_unique<int>(value)) {}
  std::unique_ptr<int> number;
};

TEST(Channel, ALoopPopsUntilTheEndWithoutAnOutParameter) {
  Channel<OnlyMoved> channel(4);
  for (int i = 0; i < 3; ++i) channel.Push(OnlyMoved(i));
  channel.Close();
  int next = 0;
  while (auto item = channel.Pop()) EXPECT_EQ(*item->number, next++);
  EXPECT_EQ(next, 3);
  EXPECT_FALSE(channel.Pop()) << "the end stays";
}

TEST(Channel, APopWithoutAnOutParameterThrowsTheFailureBehindTheGoodItems) {
  Channel<int> channel(4);
  channel.Push(7);
  channel.Close(Status(StatusCode::kIoError, "disk"));
  EXPECT_EQ(channel.Pop(), 7);
  try {
    (void)channel.Pop();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kIoError);
  }
  Channel<int> killed(1);
  killed.Kill(Status());
  EXPECT_THROW((void)killed.Pop(), Error);
}

TEST(Channel, KillFailsPopsAtOnceWithItsStatus) {
  Channel<int> channel(4);
  channel.Push(1);
  EXPECT_FALSE(channel.IsKilled());
  channel.Kill(Status(StatusCode::kUserError, "reader threw"));
  EXPECT_TRUE(channel.IsKilled());
  channel.Kill(Status(StatusCode::kIoError, "second"));
  int item = 0;
  EXPECT_EQ(channel.Pop(item), QueueResult::kFailed);
  EXPECT_EQ(channel.TryPop(item), QueueResult::kFailed);
  EXPECT_FALSE(channel.Push(2));
  EXPECT_EQ(channel.status().code(), StatusCode::kUserError);
  EXPECT_EQ(channel.status().message(), "reader threw");
}

TEST(Channel, KillWithoutAFailureIsACancellation) {
  Channel<int> channel(1);
  channel.Kill(Status());
  int item = 0;
  EXPECT_EQ(channel.Pop(item), QueueResult::kFailed);
  EXPECT_EQ(channel.status().code(), StatusCode::kCancelled);
}

TEST(Channel, CloseWithAFailureDeliversGoodItemsFirst) {
  Channel<int> channel(4);
  channel.Push(1);
  channel.Close(Status(StatusCode::kDamaged, "bad record"));
  channel.Close();
  int item = 0;
  EXPECT_EQ(channel.Pop(item), QueueResult::kOk);
  EXPECT_EQ(channel.Pop(item), QueueResult::kFailed);
  EXPECT_EQ(channel.status().code(), StatusCode::kDamaged);
  EXPECT_FALSE(channel.IsKilled());
}

TEST(Channel, KillOverridesClose) {
  Channel<int> channel(4);
  channel.Push(1);
  channel.Close();
  channel.Kill(Status(StatusCode::kIoError, "disk"));
  int item = 0;
  EXPECT_EQ(channel.Pop(item), QueueResult::kFailed);
}

TEST(Channel, DeadlinesEndWaits) {
  Channel<std::unique_ptr<int>> channel(1);
  std::unique_ptr<int> item;
  EXPECT_EQ(channel.PopUntil(item, DeadlineAfter(milliseconds(1))), QueueResult::kTimeout);
  EXPECT_TRUE(channel.Push(std::make_unique<int>(1)));
  item = std::make_unique<int>(2);
  EXPECT_EQ(channel.PushUntil(std::move(item), DeadlineAfter(milliseconds(1))),
            QueueResult::kTimeout);
  EXPECT_NE(item, nullptr);
}

TEST(Channel, ManySendersAndReceiversMoveTheSameSet) {
  constexpr int kEach = 2000;
  Channel<int> channel(10);
  std::atomic<long> sum{0};
  std::vector<std::thread> senders;
  std::vector<std::thread> receivers;
  for (int s = 0; s < 3; ++s) {
    senders.emplace_back([&] {
      for (int i = 1; i <= kEach; ++i) EXPECT_TRUE(channel.Push(int{i}));
    });
  }
  for (int r = 0; r < 4; ++r) {
    receivers.emplace_back([&] {
      int item = 0;
      while (channel.Pop(item) == QueueResult::kOk) sum += item;
    });
  }
  for (auto& sender : senders) sender.join();
  channel.Close();
  for (auto& receiver : receivers) receiver.join();
  EXPECT_EQ(sum, 3L * kEach * (kEach + 1) / 2);
}

}  // namespace
}  // namespace ringfeed
