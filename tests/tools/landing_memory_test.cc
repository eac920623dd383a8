#include "tools/feed/landing_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "base/memory/arena.h"
#include "gpu/feed/host_pins.h"
#include "ringfeed/emulated_devices.h"

namespace ringfeed::tools {
namespace {

class LandingMemoryTest : public testing::Test {
 protected:
  static constexpr std::size_t kMiB = std::size_t{1} << 20;

  void SetUp() override { ASSERT_TRUE(devices_->BindThread(0).ok()); }

  const std::shared_ptr<EmulatedDevices> devices_ = EmulatedDevices::Open(1);
  const std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = 8 * kMiB});
  const std::size_t free_bytes_ = arena_->unreserved_bytes();
  const std::shared_ptr<HostPins> pins_ = std::make_shared<HostPins>(devices_, CpuList{});
};

TEST_F(LandingMemoryTest, ItGrowsAndHoldsWhatItHasAlone) {
  LandingMemory memory(arena_, pins_);
  EXPECT_EQ(memory.bytes(), 0U);
  for (const std::size_t bytes : {1UL, kMiB, kMiB, 2 * kMiB, kMiB}) {
    ASSERT_TRUE(memory.Grow(bytes).ok());
    EXPECT_GE(memory.bytes(), bytes);
    EXPECT_EQ(memory.unpinned_reason(), "");
    EXPECT_EQ(arena_->Report().in_use_bytes, memory.bytes());
    EXPECT_EQ(arena_->unreserved_bytes(), free_bytes_ - memory.bytes());
  }
}

TEST_F(LandingMemoryTest, ItLeavesTheReadersHalfOfWhatIsFree) {
  {
    LandingMemory half(arena_, pins_);
    ASSERT_TRUE(half.Grow(free_bytes_ / 2).ok());
    EXPECT_EQ(half.unpinned_reason(), "");
    LandingMemory more(arena_, pins_);
    ASSERT_TRUE(more.Grow(free_bytes_ / 4 + 1).ok());
    EXPECT_EQ(more.bytes(), free_bytes_ / 4 + 1);
    EXPECT_NE(more.unpinned_reason(), "");
    EXPECT_EQ(arena_->unreserved_bytes(), free_bytes_ / 2);
  }
  EXPECT_EQ(arena_->Report().in_use_bytes, 0U);
  EXPECT_EQ(arena_->unreserved_bytes(), free_bytes_);
}

TEST_F(LandingMemoryTest, WhatOutgrowsTheArenaLetsGoOfIt) {
  LandingMemory memory(arena_, pins_);
  ASSERT_TRUE(memory.Grow(kMiB).ok());
  ASSERT_TRUE(memory.Grow(2 * free_bytes_).ok());
  EXPECT_EQ(arena_->unreserved_bytes(), free_bytes_);
  EXPECT_NE(memory.unpinned_reason(), "");
  memory.data()[2 * free_bytes_ - 1] = std::byte{1};
}

}  // namespace
}  // namespace ringfeed::tools
