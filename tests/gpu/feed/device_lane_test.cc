#include "gpu/feed/device_lane.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "gpu/feed/host_pins.h"
#include "ringfeed/emulated_devices.h"
#include "ringfeed/make_tensor.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kLongNs = 60'000'000'000;

FeedItem Item(std::uint64_t number) {
  FeedItem item;
  item.number = number;
  item.rows = item.valid_rows = 1;
  item.batch = {MakeScalar(static_cast<std::int64_t>(number))};
  return item;
}

// A lane that is slow is not one that gets nothing: what to blame depends on it.
TEST(DeviceLaneTest, WhatWasGivenIsOnItsWayUntilItIsTaken) {
  const auto devices = EmulatedDevices::Open(1);
  DeviceLane lane(devices, 0, 0, {}, std::make_shared<HostPins>(devices, CpuList{}));
  ASSERT_TRUE(lane.Open().ok());
  for (std::uint64_t number = 0; number < 5; ++number) {
    EXPECT_FALSE(lane.HasOnItsWay());
    ASSERT_EQ(lane.TryGive(Item(number)), QueueResult::kOk);
    EXPECT_TRUE(lane.HasOnItsWay());  // in the inbox
    std::size_t slot = 0;
    QueueResult result = QueueResult::kEmpty;
    while (result == QueueResult::kEmpty) {  // until earlier copies let go of a slot
      lane.Feed();
      EXPECT_TRUE(lane.HasOnItsWay());  // in a slot, or about to be
      result = lane.TryTake(&slot);
    }
    ASSERT_EQ(result, QueueResult::kOk);
    EXPECT_FALSE(lane.HasOnItsWay());
    lane.Release(slot);
  }
  ASSERT_EQ(lane.TryGive(Item(5)), QueueResult::kOk);
  lane.Kill({});
  ASSERT_TRUE(lane.Drain(devices->NowNanos() + kLongNs).ok());
  lane.Reset();  // drops it
  EXPECT_FALSE(lane.HasOnItsWay());
  EXPECT_TRUE(lane.Free(devices->NowNanos() + kLongNs).ok());
}

class DeviceLaneGroupTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(lane_.Open().ok()); }
  void TearDown() override {
    lane_.Kill({});
    ASSERT_TRUE(lane_.Drain(devices_->NowNanos() + kLongNs).ok());
    EXPECT_TRUE(lane_.Free(devices_->NowNanos() + kLongNs).ok());
  }
  /// The next slot that is ready holds that number.
  void ExpectTaken(std::int64_t number) {
    std::size_t taken = 0;
    ASSERT_EQ(lane_.TryTake(&taken), QueueResult::kOk);
    DeviceLane::Slot& slot = lane_.slot(taken);
    ASSERT_TRUE(lane_.WaitHost(&slot).ok());
    std::int64_t seen = -1;
    ASSERT_TRUE(devices_->BindThread(0).ok());
    DeviceStream stream;
    ASSERT_TRUE(devices_->CreateStream(0, StreamPriority::kNormal, &stream).ok());
    ASSERT_TRUE(devices_
                    ->CopyToHost(stream, reinterpret_cast<std::byte*>(&seen), slot.tensors[0].data,
                                 sizeof(seen))
                    .ok());
    ASSERT_TRUE(devices_->SyncStream(stream).ok());
    ASSERT_TRUE(devices_->DestroyStream(stream).ok());
    EXPECT_EQ(seen, number);
    lane_.Release(taken);
  }

  static LaneOptions OfFixedSlots() {
    LaneOptions options;
    options.slot_bytes = 256;
    options.fixed_slots = true;
    return options;
  }

  const std::shared_ptr<EmulatedDevices> devices_ = EmulatedDevices::Open(1);
  DeviceLane lane_{devices_, 0, 0, OfFixedSlots(), std::make_shared<HostPins>(devices_, CpuList{})};
};

TEST_F(DeviceLaneGroupTest, SmallBatchesThatWaitAreCopiedByOneCall) {
  ASSERT_EQ(lane_.TryGive(Item(7)), QueueResult::kOk);
  ASSERT_EQ(lane_.TryGive(Item(8)), QueueResult::kOk);
  EXPECT_EQ(lane_.TryGive(Item(9)), QueueResult::kFull);
  lane_.Feed();
  EXPECT_EQ(devices_->CallsOf(DeviceCall::kCopyBatchToDevice), 1U);
  EXPECT_EQ(devices_->CallsOf(DeviceCall::kCopyToDevice), 0U);
  ExpectTaken(7);
  ExpectTaken(8);
}

TEST_F(DeviceLaneGroupTest, WhatFailsComesAfterTheBatchesBeforeIt) {
  FeedItem large = Item(8);
  large.batch = {MakeTensor(std::vector<std::int64_t>(100, 8))};
  ASSERT_EQ(lane_.TryGive(Item(7)), QueueResult::kOk);
  ASSERT_EQ(lane_.TryGive(std::move(large)), QueueResult::kOk);
  lane_.Feed();
  ExpectTaken(7);
  std::size_t slot = 0;
  EXPECT_EQ(lane_.TryTake(&slot), QueueResult::kFailed);
  EXPECT_EQ(lane_.failure().code(), StatusCode::kResourceExhausted);
}

TEST_F(DeviceLaneGroupTest, TheEndComesAfterTheBatchesBeforeIt) {
  ASSERT_EQ(lane_.TryGive(Item(7)), QueueResult::kOk);
  lane_.End({});
  lane_.Feed();
  ExpectTaken(7);
  std::size_t slot = 0;
  EXPECT_EQ(lane_.TryTake(&slot), QueueResult::kClosed);
}

}  // namespace
}  // namespace ringfeed
