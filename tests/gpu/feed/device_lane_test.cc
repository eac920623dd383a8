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
    EXPECT_EQ(lane.TryGive(Item(number)), QueueResult::kFull);
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

}  // namespace
}  // namespace ringfeed
