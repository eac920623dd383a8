#include "tools/feed/landing_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "base/memory/arena.h"
#include "gpu/feed/host_pins.h"
#include "ringfeed/devices/emulated_devices.h"

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

// Arenas are registered chunk by chunk, and no copy may stand in two of them.
TEST_F(LandingMemoryTest, CopiesCrossTheBordersOfRegistrations) {
  constexpr std::size_t kBytes = HostPins::kChunkBytes + kMiB;
  const auto arena = Arena::Create({.bytes = 3 * HostPins::kChunkBytes});
  LandingMemory memory(arena, pins_);
  ASSERT_TRUE(memory.Grow(kBytes).ok());
  ASSERT_EQ(memory.unpinned_reason(), "");
  DeviceStream stream;
  std::byte* from = nullptr;
  ASSERT_TRUE(devices_->CreateStream(0, {}, &stream).ok());
  ASSERT_TRUE(devices_->AllocDevice(0, kBytes, &from).ok());
  ASSERT_TRUE(devices_->Fill(stream, from, std::byte{7}, kBytes).ok());
  memory.data()[kBytes] = std::byte{1};
  const Status copied = memory.Copy(devices_.get(), stream, memory.data(), from, kBytes);
  ASSERT_TRUE(copied.ok()) << copied.ToString();
  ASSERT_TRUE(devices_->SyncStream(stream).ok());
  const std::span bytes(memory.data(), kBytes);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{7}; }));
  EXPECT_EQ(memory.data()[kBytes], std::byte{1});
  EXPECT_TRUE(devices_->offences().empty());
  EXPECT_TRUE(devices_->FreeDevice(0, from).ok());
  EXPECT_TRUE(devices_->DestroyStream(stream).ok());
}

}  // namespace
}  // namespace ringfeed::tools
