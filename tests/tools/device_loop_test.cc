#include "tools/feed/device_loop.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "gpu/feed/feed_core.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/devices/timeline.h"
#include "tests/gpu/feed/numbered_batches.h"

namespace ringfeed::tools {
namespace {

constexpr std::int64_t kStepNs = 1'000'000;
constexpr std::uint64_t kBatches = 40;
constexpr std::int64_t kLoopRows = 4096;
constexpr std::uint64_t kLoopBatchBytes = kLoopRows * 16;

/// A loop on a simulated device, in virtual time.
struct SimulatedRun {
  std::int64_t supply_ns = 0;  ///< between batches
  std::vector<DeviceFault> faults{};
  std::uint64_t fail_at = ~std::uint64_t{0};  ///< the data do
  CopyBack copy_back = CopyBack::kNothing;
  std::shared_ptr<Arena> arena{};  ///< that it is copied back to

  Status status{};
  bool feed_ended = false;
  DeviceLoopTimes times{};
  std::vector<std::uint64_t> delivered{};
  std::vector<TimeSpan> spans{};
  std::size_t offences = 0;
  CopiedBack copied_back{};
  bool leaked = false;

  void Run() {
    EmulatedOptions emulated{.simulated = true};
    emulated.devices[0].link_bytes_per_s = 1e9;
    emulated.faults = faults;
    const auto devices = EmulatedDevices::Open(emulated);
    NumberedSupply::Options supply;
    supply.batches = kBatches;
    supply.rows = kLoopRows;
    supply.poison = false;
    supply.fail_at = fail_at;
    if (supply_ns > 0) supply.interval_ns = [this] { return supply_ns; };
    FeedOptions options;
    options.backend = devices;
    options.devices = {0};
    const auto timeline = std::make_shared<Timeline>();
    options.timeline = timeline;
    const auto core = FeedCore::Start(std::make_unique<NumberedSupply>(supply, devices), options);
    {
      DeviceLoop loop(core.get(), timeline.get(),
                      {.step_ns = kStepNs, .copy_back = copy_back, .arena = arena},
                      [this](const DeviceDelivery& one) { delivered.push_back(one.number); });
      status = loop.Run();
      times = loop.times();
      feed_ended = loop.feed_ended();
      copied_back = loop.copied_back();
    }
    (void)core->Close();
    leaked = !devices->Leaks().none();
    spans = timeline->spans();
    offences = devices->offences().size();
  }

  double Stall() const {
    return static_cast<double>(times.stall_ns) / static_cast<double>(times.end_ns - times.begin_ns);
  }
};

TEST(DeviceLoopTest, WhatADeviceDoesNotComputeItWaits) {
  for (const std::int64_t supply_ns : {0, 500'000, 1'500'000, 3'000'000}) {
    SimulatedRun run{.supply_ns = supply_ns};
    run.Run();
    ASSERT_TRUE(run.status.ok()) << run.status.ToString();
    EXPECT_EQ(run.delivered.size(), kBatches);
    const std::int64_t idle_ns =
        run.times.end_ns - run.times.begin_ns - static_cast<std::int64_t>(kBatches) * kStepNs;
    EXPECT_NEAR(static_cast<double>(run.times.stall_ns), static_cast<double>(idle_ns), 1e4)
        << supply_ns;
    EXPECT_EQ(run.offences, 0U);
  }
}

TEST(DeviceLoopTest, EachStepIsBehindItsCopyInTheTimeline) {
  for (const std::int64_t supply_ns : {0, 500'000, 1'500'000}) {
    SimulatedRun run{.supply_ns = supply_ns};
    run.Run();
    std::map<std::uint64_t, std::int64_t> copied_ns;
    for (const TimeSpan& span : run.spans) {
      if (std::string_view(span.what) == "copy") copied_ns[span.number] = span.end_ns;
    }
    std::size_t steps = 0;
    for (const TimeSpan& span : run.spans) {
      if (std::string_view(span.what) != "step") continue;
      ++steps;
      ASSERT_TRUE(copied_ns.contains(span.number)) << span.number;
      EXPECT_GE(span.begin_ns, copied_ns[span.number]) << span.number;
    }
    EXPECT_EQ(steps, kBatches);
  }
}

TEST(DeviceLoopTest, AFastSupplyStallsNobodyThoughTheHostRunsAhead) {
  SimulatedRun run;
  run.Run();
  EXPECT_LE(run.Stall(), 0.01);
  EXPECT_GE(CopyOverlap(run.spans, 0).value(), 0.9);
}

TEST(DeviceLoopTest, ASupplyOfAThirdOfTheDemandStallsForTwoThirds) {
  SimulatedRun run{.supply_ns = 3 * kStepNs};
  run.Run();
  EXPECT_NEAR(run.Stall(), 2.0 / 3, 0.05);
}

TEST(DeviceLoopTest, WhatPrecedesAFailureOfTheDataIsDelivered) {
  SimulatedRun run{.fail_at = 7};
  run.Run();
  EXPECT_FALSE(run.status.ok());
  EXPECT_TRUE(run.feed_ended);
  EXPECT_EQ(run.delivered, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(DeviceLoopTest, AFailureOfTheLoopsOwnIsNotOneOfTheFeed) {
  SimulatedRun run{.faults = {{.call = DeviceCall::kBusy, .nth = 5}}};
  run.Run();
  EXPECT_FALSE(run.status.ok());
  EXPECT_FALSE(run.feed_ended);
  EXPECT_EQ(run.delivered, (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

TEST(DeviceLoopTest, WhatIsCopiedBackLandsInPinnedMemoryThatIsSetAside) {
  const auto arena = Arena::Create({.bytes = std::size_t{8} << 20});
  const std::size_t free_bytes = arena->unreserved_bytes();
  SimulatedRun run{.copy_back = CopyBack::kEverything, .arena = arena};
  run.Run();
  ASSERT_TRUE(run.status.ok()) << run.status.ToString();
  EXPECT_EQ(run.delivered.size(), kBatches);
  EXPECT_EQ(run.copied_back.bytes, kBatches * kLoopBatchBytes);
  EXPECT_EQ(run.copied_back.unpinned_bytes, 0U);
  // Of two steps, each in whole slabs.
  EXPECT_EQ(run.copied_back.memory_bytes, 2 * arena->slab_bytes());
  EXPECT_EQ(arena->Report().peak_in_use_bytes, run.copied_back.memory_bytes);
  EXPECT_EQ(arena->Report().in_use_bytes, 0U);
  EXPECT_EQ(arena->unreserved_bytes(), free_bytes);
  EXPECT_EQ(run.offences, 0U);
  EXPECT_FALSE(run.leaked);
}

TEST(DeviceLoopTest, WithoutPinnedMemoryForCopiesItUsesOtherMemoryAndSaysSo) {
  const auto arena = Arena::Create({.bytes = std::size_t{2} << 20});
  ASSERT_TRUE(arena->ReserveQuota(arena->bytes() - arena->slab_bytes()));  // another one's
  SimulatedRun run{.copy_back = CopyBack::kEverything, .arena = arena};
  run.Run();
  ASSERT_TRUE(run.status.ok()) << run.status.ToString();
  EXPECT_EQ(run.delivered.size(), kBatches);
  EXPECT_EQ(run.copied_back.unpinned_bytes, kBatches * kLoopBatchBytes);
  EXPECT_EQ(run.copied_back.memory_bytes, 2 * kLoopBatchBytes);
  EXPECT_NE(run.copied_back.unpinned_reason.find("RINGFEED_ARENA_BYTES"), std::string::npos);
  EXPECT_EQ(arena->Report().peak_in_use_bytes, 0U);
  EXPECT_EQ(arena->unreserved_bytes(), arena->slab_bytes());
  EXPECT_FALSE(run.leaked);
}

TEST(DeviceLoopTest, MemoryThatCannotBeRegisteredIsToldAndWorks) {
  const auto arena = Arena::Create({.bytes = std::size_t{8} << 20});
  // The first registration is that of the batches' memory.
  SimulatedRun run{.faults = {{.call = DeviceCall::kRegisterHost, .nth = 2}},
                   .copy_back = CopyBack::kEverything,
                   .arena = arena};
  run.Run();
  ASSERT_TRUE(run.status.ok()) << run.status.ToString();
  EXPECT_EQ(run.delivered.size(), kBatches);
  EXPECT_EQ(run.copied_back.unpinned_bytes, kBatches * kLoopBatchBytes);
  EXPECT_NE(run.copied_back.unpinned_reason, "");
}

TEST(DeviceLoopTest, ADeviceThatIsLostEndsTheLoop) {
  SimulatedRun run{
      .faults = {{.call = DeviceCall::kBusy, .nth = 5, .effect = FaultEffect::kLater}}};
  run.Run();
  EXPECT_EQ(run.status.code(), StatusCode::kDeviceLost);
  EXPECT_LE(run.delivered.size(), 4U);
}

}  // namespace
}  // namespace ringfeed::tools
