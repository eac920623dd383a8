#include "readers/engine/waiting/outbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <stop_token>

namespace ringfeed {
namespace {

class OutboxTest : public ::testing::Test {
 protected:
  using Item = std::unique_ptr<int>;

  void Put(std::uint64_t number) { outbox_.Put(number, std::make_unique<int>(int(number))); }
  QueueResult Take() {
    return outbox_.Take(&item_, [this] { ++asks_; });
  }

  BasicOutbox<NativeQueuePolicy, Item> outbox_{2, {.spin_ns = 0}};
  Item item_;
  int asks_ = 0;  // for the plan
};

TEST_F(OutboxTest, DeliveriesComeInTheOrderOfTheirNumbers) {
  Put(1);
  EXPECT_EQ(Take(), QueueResult::kEmpty);
  Put(0);
  for (int number = 0; number < 2; ++number) {
    ASSERT_EQ(Take(), QueueResult::kOk);
    EXPECT_EQ(*item_, number);
  }
  EXPECT_EQ(outbox_.taken(), 2u);
}

TEST_F(OutboxTest, ThePlanIsWantedOnceRoomThatItAskedForIsThere) {
  Put(0);
  Put(1);
  ASSERT_EQ(Take(), QueueResult::kOk);
  EXPECT_EQ(asks_, 0);  // nobody wanted it
  EXPECT_TRUE(outbox_.HasRoom(2));
  Put(2);
  EXPECT_FALSE(outbox_.HasRoom(3));
  ASSERT_EQ(Take(), QueueResult::kOk);
  EXPECT_EQ(asks_, 1);
  ASSERT_EQ(Take(), QueueResult::kOk);
  EXPECT_EQ(asks_, 1);
}

TEST_F(OutboxTest, TheFirstEndInTheOrderCounts) {
  outbox_.NoteEnd(5, Status(StatusCode::kDamaged, "late"));
  outbox_.NoteEnd(1, Status(StatusCode::kIoError, "early"));
  outbox_.NoteEnd(3, Status());
  Put(0);
  outbox_.Close(1);
  EXPECT_EQ(Take(), QueueResult::kOk);
  EXPECT_EQ(Take(), QueueResult::kClosed);
  EXPECT_EQ(outbox_.status().code(), StatusCode::kIoError);
  outbox_.ChangeStatus([](Status* status) { *status = Status(); });
  EXPECT_TRUE(outbox_.status().ok());
}

TEST_F(OutboxTest, WhatIsOutIsKnownUntilItComesBack) {
  EXPECT_FALSE(outbox_.IsAnyOut());
  outbox_.NoteOut();
  Put(0);
  ASSERT_EQ(Take(), QueueResult::kOk);
  EXPECT_TRUE(outbox_.IsAnyOut());
  outbox_.NoteBack();
  EXPECT_FALSE(outbox_.IsAnyOut());
}

TEST_F(OutboxTest, NothingComesAfterCancel) {
  Put(0);
  outbox_.Cancel();
  EXPECT_EQ(Take(), QueueResult::kClosed);
  EXPECT_EQ(outbox_.TakeUntil(&item_, kNoDeadline, {}, [] {}), QueueResult::kClosed);
}

}  // namespace
}  // namespace ringfeed
