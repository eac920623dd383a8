#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/devices/timeline.h"
#include "tests/gpu/feed/feed_scenario.h"

namespace ringfeed {
namespace {

FeedScenario Devices(std::size_t count) {
  FeedScenario scenario;
  scenario.devices.devices.resize(count);
  scenario.supply.batches = 12 * count + 1;
  return scenario;
}

std::vector<std::pair<SchedulePolicy, std::uint64_t>> Schedules() {
  std::vector<std::pair<SchedulePolicy, std::uint64_t>> schedules = {
      {SchedulePolicy::kTimed, 0}, {SchedulePolicy::kEager, 0}, {SchedulePolicy::kLazy, 0}};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    schedules.emplace_back(SchedulePolicy::kRandom, seed);
    schedules.emplace_back(SchedulePolicy::kPriorities, seed);
  }
  return schedules;
}

/// Runs the scenario under every schedule; each must go well.
void ExpectGoodUnderEverySchedule(FeedScenario scenario) {
  for (const auto& [policy, seed] : Schedules()) {
    scenario.devices.policy = policy;
    scenario.devices.seed = seed;
    scenario.devices.split_bytes = seed % 2 == 0 ? 0 : 64;
    scenario.devices.late_queries = static_cast<int>(seed % 3);
    EXPECT_EQ(RunScenario(scenario).Wrong(scenario), "")
        << "policy " << static_cast<int>(policy) << ", seed " << seed;
  }
}

TEST(FeedTest, EveryBatchArrivesOnceInOrderOnOneToEightDevices) {
  for (const std::size_t devices : {1U, 2U, 4U, 8U}) ExpectGoodUnderEverySchedule(Devices(devices));
}

TEST(FeedTest, DevicesOfUnequalSpeedGetTheirShare) {
  FeedScenario scenario = Devices(4);
  for (std::size_t d = 0; d < 4; ++d) {
    scenario.devices.devices[d].speed = 1.0 + static_cast<double>(d);
    scenario.devices.devices[d].link_bytes_per_s = 1e8 * static_cast<double>(1 + d);
  }
  scenario.supply.batches = 40;
  ExpectGoodUnderEverySchedule(scenario);
  for (const DeviceFeedStats& device : RunScenario(scenario).stats.devices)
    EXPECT_EQ(device.batches, 10U);
}

TEST(FeedTest, ATimelineHasCopiesAsLongAsTheyTookWithoutTheirWaitsForTheSlot) {
  FeedScenario scenario = Devices(2);
  scenario.devices.devices[0].link_bytes_per_s = 1e9;
  scenario.devices.devices[1].link_bytes_per_s = 2e9;
  scenario.supply.rows = 4096;  // 64 KiB
  scenario.step_ns = [] { return std::int64_t{5'000'000}; };
  scenario.feed.timeline = std::make_shared<Timeline>();
  EXPECT_EQ(RunScenario(scenario).Wrong(scenario), "");
  std::uint64_t copies = 0;
  for (const TimeSpan& span : scenario.feed.timeline->spans()) {
    if (std::string(span.what) != "copy") continue;
    ++copies;
    EXPECT_NEAR(static_cast<double>(span.end_ns - span.begin_ns),
                1e4 + (span.track == 0 ? 65'536 : 32'768), 100)
        << "batch " << span.number;
  }
  EXPECT_EQ(copies, scenario.supply.batches);
}

TEST(FeedTest, RaggedBatchesArriveWithTheirOffsets) {
  FeedScenario scenario = Devices(2);
  scenario.supply.ragged = true;
  ExpectGoodUnderEverySchedule(scenario);
}

TEST(FeedTest, BatchesOutsideOfPinnedMemoryAreStaged) {
  FeedScenario scenario = Devices(2);
  scenario.supply.ragged = true;
  scenario.supply.in_arena = false;
  ExpectGoodUnderEverySchedule(scenario);
  const FeedOutcome outcome = RunScenario(scenario);
  EXPECT_GT(outcome.stats.devices[0].packed_bytes, 0U);
  EXPECT_EQ(outcome.stats.devices[0].unpinned_bytes, 0U);
}

TEST(FeedTest, TransformsRunBehindTheCopyAndBeforeTheConsumer) {
  FeedScenario scenario = Devices(2);
  scenario.supply.ragged = true;
  scenario.feed.transforms = {WidenField{1, DType::kInt64}};
  ExpectGoodUnderEverySchedule(scenario);
  scenario.feed.transforms = {PadField{1, 3}};
  scenario.unused_every = 3;
  ExpectGoodUnderEverySchedule(scenario);
}

TEST(FeedTest, FewerBytesCrossTheLinkThanAreShown) {
  FeedScenario scenario = Devices(1);
  scenario.supply.ragged = true;
  scenario.supply.rows = 4000;
  scenario.feed.transforms = {PadField{1, 100}};
  const FeedOutcome outcome = RunScenario(scenario);
  EXPECT_EQ(outcome.Wrong(scenario), "");
  EXPECT_LT(outcome.stats.devices[0].copied_bytes, outcome.stats.devices[0].delivered_bytes / 5);
}

TEST(FeedTest, UnusedLeasesGiveTheirSlotsBack) {
  FeedScenario scenario = Devices(2);
  for (const std::uint64_t every : {1U, 2U, 3U}) {
    scenario.unused_every = every;
    ExpectGoodUnderEverySchedule(scenario);
  }
}

TEST(FeedTest, TheHostCanLook) {
  FeedScenario scenario = Devices(2);
  scenario.looks_from_host = true;
  ExpectGoodUnderEverySchedule(scenario);
}

TEST(FeedTest, AnyNumberOfSlotsFromTwoOnWorks) {
  for (const std::size_t slots : {2U, 3U, 7U}) {
    FeedScenario scenario = Devices(2);
    scenario.feed.slots = slots;
    ExpectGoodUnderEverySchedule(scenario);
  }
}

TEST(FeedTest, TheLastStepIsAsItWasAskedFor) {
  for (const LastStep last_step : {LastStep::kDrop, LastStep::kPad, LastStep::kShort}) {
    for (const Distribution distribution : {Distribution::kRoundRobin, Distribution::kSplit}) {
      FeedScenario scenario = Devices(3);
      scenario.supply.batches = 11;
      scenario.supply.rows = 5;
      scenario.supply.last_rows = 2;
      scenario.feed.last_step = last_step;
      scenario.feed.distribution = distribution;
      const FeedOutcome outcome = RunScenario(scenario);
      EXPECT_EQ(outcome.end, ReadResult::kEnd) << outcome.status.ToString();
      EXPECT_TRUE(outcome.offences.empty()) << outcome.offences.front();
      EXPECT_TRUE(outcome.leaks.none());
      EXPECT_EQ(outcome.seen.size() % 3, 0U);
      std::uint64_t rows = 0;
      for (const auto& seen : outcome.seen) rows += seen.valid_rows;
      EXPECT_EQ(rows + outcome.stats.dropped_rows, 52U);
    }
  }
}

TEST(FeedTest, AReplicatedBatchIsReadOnceAndComesToEveryDeviceOfItsGroup) {
  for (const std::size_t replicas : {0U, 2U}) {
    for (const SchedulePolicy policy : {SchedulePolicy::kRandom, SchedulePolicy::kLazy}) {
      FeedScenario scenario = Devices(4);
      scenario.devices.policy = policy;
      scenario.supply.batches = 10;
      scenario.feed.distribution = Distribution::kReplicate;
      scenario.feed.replicas = replicas;
      const FeedOutcome outcome = RunScenario(scenario);
      EXPECT_EQ(outcome.end, ReadResult::kEnd) << outcome.status.ToString();
      EXPECT_TRUE(outcome.offences.empty()) << outcome.offences.front();
      EXPECT_TRUE(outcome.leaks.none());
      EXPECT_EQ(outcome.batches_out, 0U);
      const std::size_t copies = replicas == 0 ? 4 : replicas;
      ASSERT_EQ(outcome.seen.size(), 10 * copies);
      for (std::size_t k = 0; k < outcome.seen.size(); ++k) {
        EXPECT_EQ(outcome.seen[k].number, k / copies);
        const Instance made =
            NumberedBatch{k / copies, scenario.supply.RowsOf(k / copies), scenario.supply.ragged}
                .Make(nullptr);
        EXPECT_EQ(outcome.seen[k].checksums[0], ChecksumOf({made[0].data, made[0].bytes}));
      }
      for (const DeviceFeedStats& device : outcome.stats.devices) {
        EXPECT_EQ(device.batches, 10 * copies / 4);
      }
    }
  }
}

TEST(FeedTest, AsManyBatchesWaitForSlotsAsWereAskedFor) {
  for (const std::size_t waiting : {1U, 2U, 5U}) {
    const auto devices = EmulatedDevices::Open(EmulatedOptions{.simulated = true});
    auto supply = std::make_unique<NumberedSupply>(
        NumberedSupply::Options{.batches = 32, .held = 32}, devices);
    const auto out = supply->out_counter();
    FeedOptions options;
    options.backend = devices;
    options.devices = {0};
    options.waiting_batches = waiting;
    const auto core = FeedCore::Start(std::move(supply), options);
    for (int round = 0; round < 10; ++round) {
      core->Pump();
      devices->Idle(devices->NowNanos() + 1'000'000);
    }
    EXPECT_EQ(*out, waiting + 1) << "and one that the reading thread has";
    EXPECT_TRUE(core->Close().ok());

    if (waiting == 2) continue;
    FeedScenario scenario = Devices(2);
    scenario.feed.waiting_batches = waiting;
    scenario.feed.priority = StreamPriority::kNormal;
    ExpectGoodUnderEverySchedule(scenario);
  }
}

TEST(FeedTest, SlotsGrowWithTheBatchesUnlessTheyAreFixed) {
  FeedScenario scenario = Devices(1);
  scenario.supply.batches = 9;
  scenario.supply.last_rows = 400;
  FeedOutcome outcome = RunScenario(scenario);
  EXPECT_EQ(outcome.Wrong(scenario), "");
  EXPECT_EQ(outcome.stats.devices[0].grown_slots, 1U);

  scenario.feed.fixed_slots = true;
  outcome = RunScenario(scenario);
  EXPECT_EQ(outcome.status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(outcome.status.message().find("slot_bytes"), std::string::npos);
  EXPECT_EQ(outcome.seen.size(), 8U);  // what is good comes first
  EXPECT_TRUE(outcome.leaks.none());

  scenario.feed.slot_bytes = 8192;
  outcome = RunScenario(scenario);
  EXPECT_EQ(outcome.Wrong(scenario), "");
  EXPECT_EQ(outcome.stats.devices[0].grown_slots, 0U);
}

// Each batch is larger than the one before, and the loop is slow, so that all slots are in use.
TEST(FeedTest, SlotsThatGrowHoldTwiceTheLargestBatchAtMost) {
  FeedScenario scenario = Devices(1);
  scenario.supply.batches = 60;
  scenario.supply.rows = 64;
  scenario.supply.more_rows = 4;
  ExpectGoodUnderEverySchedule(scenario);
  const FeedOutcome outcome = RunScenario(scenario);
  const std::size_t largest = static_cast<std::size_t>(scenario.supply.RowsOf(59)) *
                              NumberedBatch::kColumns * sizeof(std::uint32_t);
  EXPECT_LE(outcome.most_held_bytes, 2 * scenario.feed.slots * largest);
  EXPECT_LT(outcome.stats.devices[0].grown_slots, 30U) << "a slot must not grow for each batch";
}

TEST(FeedTest, AFailureOfTheDataComesBehindWhatIsGood) {
  FeedScenario scenario = Devices(2);
  scenario.supply.fail_at = 7;
  const FeedOutcome outcome = RunScenario(scenario);
  EXPECT_EQ(outcome.end, ReadResult::kFailed);
  EXPECT_EQ(outcome.status.code(), StatusCode::kDamaged);
  EXPECT_EQ(outcome.seen.size(), 7U);
  EXPECT_TRUE(outcome.leaks.none());
  EXPECT_EQ(outcome.batches_out, 0U);
}

TEST(FeedTest, MemoryThatCannotBeRegisteredIsCopiedFromAllTheSameAndReported) {
  FeedScenario scenario = Devices(1);
  scenario.devices.strict = false;
  scenario.devices.faults = {{DeviceCall::kRegisterHost, 1, FaultEffect::kFails}};
  const FeedOutcome outcome = RunScenario(scenario);
  EXPECT_EQ(outcome.Wrong(scenario), "");
  EXPECT_EQ(outcome.stats.devices[0].unpinned_bytes, outcome.stats.devices[0].copied_bytes);
  EXPECT_NE(outcome.stats.pinning, "");
}

TEST(FeedTest, TheSameSeedGivesTheSameRun) {
  FeedScenario scenario = Devices(3);
  scenario.devices.policy = SchedulePolicy::kRandom;
  scenario.devices.seed = 5;
  EXPECT_EQ(RunScenario(scenario).virtual_ns, RunScenario(scenario).virtual_ns);
}

TEST(FeedTest, ADeviceThatHangsIsGivenUpAtTheDeadline) {
  EmulatedOptions options;
  options.simulated = true;
  options.devices[0].link_bytes_per_s = 0.01;  // a batch takes hours
  const auto backend = EmulatedDevices::Open(options);
  FeedOptions feed;
  feed.backend = backend;
  feed.devices = {0};
  feed.close_timeout_ms = 500;
  const auto core =
      FeedCore::Start(std::make_unique<NumberedSupply>(NumberedSupply::Options{}, backend), feed);
  DeviceLease lease;
  Status status;
  ASSERT_EQ(core->TryNext(&lease, &status), ReadResult::kRecord);
  lease.Release();
  const std::int64_t begin_ns = backend->NowNanos();
  const Status closed = core->Close();
  EXPECT_EQ(closed.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(closed.message().find("device 0"), std::string::npos);
  EXPECT_EQ(backend->NowNanos() - begin_ns, 500'000'000);
  // What the device may still read is neither freed nor unregistered.
  EXPECT_GT(backend->Leaks().allocations, 0U);
  EXPECT_GT(backend->Leaks().registrations, 0U);
  EXPECT_TRUE(backend->offences().empty());
  EXPECT_EQ(core->TryNext(&lease, &status), ReadResult::kFailed);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST(FeedTest, ALeaseIsUsedOnManyStreamsButNotOnAnyNumber) {
  EmulatedOptions options;
  options.simulated = true;
  const auto backend = EmulatedDevices::Open(options);
  {
    FeedOptions feed;
    feed.backend = backend;
    feed.devices = {0};
    const auto core =
        FeedCore::Start(std::make_unique<NumberedSupply>(NumberedSupply::Options{}, backend), feed);
    std::vector<DeviceStream> streams(DeviceSlot::kMostStreams + 1);
    for (DeviceStream& stream : streams) {
      ASSERT_TRUE(backend->CreateStream(0, StreamPriority::kNormal, &stream).ok());
    }
    DeviceLease lease;
    Status status;
    for (int batch = 0; batch < 8; ++batch) {
      ASSERT_EQ(core->TryNext(&lease, &status), ReadResult::kRecord);
      for (std::size_t s = 0; s < DeviceSlot::kMostStreams; ++s) {
        const auto tensors = lease.On(streams[s]);
        const MemoryAccess read{tensors[0].data, tensors[0].bytes, false};
        ASSERT_TRUE(backend->LaunchHost(streams[s], [] {}, {&read, 1}).ok());
      }
      EXPECT_NO_THROW(lease.On(streams[0]));
      EXPECT_THROW(lease.On(streams.back()), Error);
      lease.Release();
      EXPECT_THROW(lease.On(streams[0]), Error);
    }
    for (const DeviceStream stream : streams) EXPECT_TRUE(backend->DestroyStream(stream).ok());
    EXPECT_TRUE(core->Close().ok());
  }
  EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
  EXPECT_TRUE(backend->Leaks().none());
}

}  // namespace
}  // namespace ringfeed
