#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/feed/feed_scenario.h"
#include "tests/gpu/feed/feed_steps.h"

// Each wait, record and check of a feed is left out in turn, and must be missed: a step that
// nothing notices is one that a later change could lose.

namespace ringfeed {
namespace {

FeedScenario Plain() {
  FeedScenario scenario;
  scenario.supply.batches = 16;
  scenario.supply.held = 4;
  scenario.supply.ragged = true;
  return scenario;
}
FeedScenario Transformed() {
  FeedScenario scenario = Plain();
  scenario.feed.transforms = {WidenField{1, DType::kInt32}};
  return scenario;
}
FeedScenario TransformedUnused() {
  FeedScenario scenario = Transformed();
  scenario.unused_every = 1;
  return scenario;
}
FeedScenario StagedUnused() {
  FeedScenario scenario = Plain();
  scenario.supply.in_arena = false;
  scenario.unused_every = 1;
  scenario.devices.late_queries = 50;  // the host learns late that a copy is done
  return scenario;
}
FeedScenario SeenByHost() {
  FeedScenario scenario = Plain();
  scenario.looks_from_host = true;
  return scenario;
}
FeedScenario ReadDirectly() {
  FeedScenario scenario = Plain();
  scenario.supply.direct = true;
  return scenario;
}
FeedScenario ReadDirectlyUnused() {
  FeedScenario scenario = ReadDirectly();
  scenario.unused_every = 1;
  scenario.devices.late_queries = 50;  // the host learns late that a copy is done
  return scenario;
}
FeedScenario LargerAtTheEnd() {
  FeedScenario scenario = Plain();
  scenario.supply.last_rows = 500;
  return scenario;
}

FeedScenario ClosedEarly() {
  FeedScenario scenario = Plain();
  scenario.stop_after = 3;
  scenario.devices.late_queries = 50;  // the host learns late that a copy is done
  return scenario;
}
FeedScenario ClosedUnderWork() {
  FeedScenario scenario = Plain();
  scenario.stop_after = 3;
  scenario.closed_first = true;
  scenario.step_ns = [] { return std::int64_t{5'000'000}; };
  return scenario;
}
FeedScenario Growing() {
  FeedScenario scenario = Plain();
  scenario.supply.more_rows = 50;
  scenario.step_ns = [] { return std::int64_t{5'000'000}; };
  return scenario;
}

struct LeftOut {
  const char* name;
  FeedStep step;
  FeedScenario (*scenario)();
};

class LeftOutTest : public testing::TestWithParam<LeftOut> {};

void ExpectMissed(const FeedScenario& scenario) {
  SCOPED_TRACE(static_cast<int>(scenario.devices.policy));
#if defined(__SANITIZE_ADDRESS__)
  // A copy out of memory that was given back is reported before anybody compares what came.
  const auto run = [&scenario] {
    const std::string wrong = RunScenario(scenario).Wrong(scenario);
    if (wrong.empty()) return;
    std::fprintf(stderr, "wrong: %s\n", wrong.c_str());
    std::abort();
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run(), "use-after-poison|wrong: ");
#else
  EXPECT_NE(RunScenario(scenario).Wrong(scenario), "");
#endif
}

TEST_P(LeftOutTest, IsMissedUnderEverySchedule) {
  FeedScenario scenario = GetParam().scenario();
  for (const SchedulePolicy policy : {SchedulePolicy::kTimed, SchedulePolicy::kEager,
                                      SchedulePolicy::kLazy, SchedulePolicy::kRandom}) {
    scenario.devices.policy = policy;
    EXPECT_EQ(RunScenario(scenario).Wrong(scenario), "");
    const LeaveOut leave_out(GetParam().step);
    ExpectMissed(scenario);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Feed, LeftOutTest,
    testing::Values(
        LeftOut{"RegisterSource", FeedStep::kRegisterSource, Plain},
        LeftOut{"WaitForReleases", FeedStep::kWaitForReleases, Plain},
        LeftOut{"WaitForTransforms", FeedStep::kWaitForTransforms, TransformedUnused},
        LeftOut{"RecordCopied", FeedStep::kRecordCopied, Plain},
        LeftOut{"TransformsWaitForCopy", FeedStep::kTransformsWaitForCopy, Transformed},
        LeftOut{"RecordReady", FeedStep::kRecordReady, Transformed},
        LeftOut{"OnWaitsForReady", FeedStep::kOnWaitsForReady, Plain},
        LeftOut{"HostWaitsForReady", FeedStep::kHostWaitsForReady, SeenByHost},
        LeftOut{"RecordRelease", FeedStep::kRecordRelease, Plain},
        LeftOut{"SeeCopyBeforeSlab", FeedStep::kSeeCopyBeforeSlab, Plain},
        LeftOut{"SeeCopyBeforeStaging", FeedStep::kSeeCopyBeforeStaging, StagedUnused},
        LeftOut{"SeeTakenBeforeDirectSlab", FeedStep::kSeeCopyBeforeSlab, ReadDirectly},
        LeftOut{"SeeTakenBeforeUnusedDirectSlab", FeedStep::kSeeCopyBeforeSlab, ReadDirectlyUnused},
        LeftOut{"SeeGatherBeforeDirectSlab", FeedStep::kSeeGatherBeforeSlab, ReadDirectly},
        LeftOut{"SeeGatherBeforeUnusedDirectSlab", FeedStep::kSeeGatherBeforeSlab,
                ReadDirectlyUnused},
        LeftOut{"GatherWaitsForItsTable", FeedStep::kTransformsWaitForCopy, ReadDirectly},
        LeftOut{"RecordBehindGather", FeedStep::kRecordReady, ReadDirectly},
        LeftOut{"WaitForReleasesOfDirect", FeedStep::kWaitForReleases, ReadDirectly},
        LeftOut{"CheckFit", FeedStep::kCheckFit, LargerAtTheEnd},
        LeftOut{"DrainBeforeFree", FeedStep::kDrainBeforeFree, ClosedEarly},
        LeftOut{"SeeReleasesBeforeFree", FeedStep::kSeeReleasesBeforeFree, ClosedUnderWork},
        LeftOut{"SeeUsersBeforeGrowing", FeedStep::kSeeUsersBeforeGrowing, Growing}),
    [](const auto& test) { return test.param.name; });

// Whoever hands a batch out before its reads are seen done.
TEST(DirectReadTest, ABatchWithoutItsReadsCompletionIsMissed) {
  FeedScenario scenario = ReadDirectly();
  for (const SchedulePolicy policy : {SchedulePolicy::kTimed, SchedulePolicy::kEager,
                                      SchedulePolicy::kLazy, SchedulePolicy::kRandom}) {
    scenario.devices.policy = policy;
    scenario.supply.awaits_reads = true;
    EXPECT_EQ(RunScenario(scenario).Wrong(scenario), "");
    scenario.supply.awaits_reads = false;
    EXPECT_NE(RunScenario(scenario).Wrong(scenario).find("direct read"), std::string::npos);
  }
}

/// A feed that is driven by hand.
struct ByHand {
  explicit ByHand(std::size_t devices = 1) {
    EmulatedOptions options;
    options.simulated = true;
    options.devices.resize(devices);
    backend = EmulatedDevices::Open(options);
    FeedOptions feed;
    feed.backend = backend;
    for (std::size_t d = 0; d < devices; ++d) feed.devices.push_back(static_cast<int>(d));
    core =
        FeedCore::Start(std::make_unique<NumberedSupply>(NumberedSupply::Options{}, backend), feed);
  }
  std::shared_ptr<EmulatedDevices> backend;
  std::shared_ptr<FeedCore> core;
};

TEST(LeftOutCheckTest, ALeaseThatIsNotTheSlotsAnyMoreIsRefused) {
  for (const bool left_out : {false, true}) {
    const LeaveOut leave_out(left_out ? FeedStep::kCheckGeneration : FeedStep::kNone);
    ByHand feed;
    DeviceLease lease;
    Status status;
    ASSERT_EQ(feed.core->TryNext(&lease, &status), ReadResult::kRecord);
    const DeviceLease stale =
        feed.core->MakeLease(lease.device_index(), lease.slot(), lease.generation() - 1);
    const auto use = [&] { return stale.number(); };
    if (left_out) {
      EXPECT_EQ(use(), 0U);
    } else {
      EXPECT_THROW(use(), Error);
    }
  }
}

/// Long enough for a wait that comes to its own end, on any machine.
constexpr std::chrono::seconds kOwnEnd{60};

/// Whether the wait came to its own end, or had to be ended from outside after that time.
StatusCode CodeOfWait(FeedCore* core, std::size_t lane, std::chrono::milliseconds most) {
  // In real time, since what is left out would end it.
  const std::jthread closer([core, most](const std::stop_token& stop) {
    for (auto time = most; time.count() > 0 && !stop.stop_requested(); --time) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!stop.stop_requested()) core->Cancel();
  });
  DeviceLease lease;
  Status status;
  EXPECT_EQ(core->TryNext(lane, &lease, &status), ReadResult::kFailed);
  return status.code();
}

TEST(LeftOutCheckTest, AThreadThatHoldsEverySlotIsTold) {
  for (const bool left_out : {false, true}) {
    // With patience the wait ends all the same, later.
    const LeaveOut leave_out(left_out ? FeedStep::kCheckOwnLeases : FeedStep::kNone);
    ByHand feed;
    std::vector<DeviceLease> leases(3);
    Status status;
    for (DeviceLease& lease : leases) {
      ASSERT_EQ(feed.core->TryNext(&lease, &status), ReadResult::kRecord);
    }
    EXPECT_EQ(CodeOfWait(feed.core.get(), 0, kOwnEnd),
              left_out ? StatusCode::kDeadlineExceeded : StatusCode::kResourceExhausted);
  }
}

TEST(LeftOutCheckTest, AWaitForADeviceBehindOneThatNobodyServesEnds) {
  for (const bool left_out : {false, true}) {
    const LeaveOut leave_out(left_out ? FeedStep::kCheckPatience : FeedStep::kNone);
    ByHand feed(2);
    DeviceLease lease;
    Status status;
    // Device 1 is never asked for: its slots fill, then the reader waits for it.
    ReadResult result{};
    int batches = 0;
    if (left_out) {
      for (; batches < 5; ++batches) {
        ASSERT_EQ(feed.core->TryNext(0, &lease, &status), ReadResult::kRecord);
      }
      lease.Release();
      ASSERT_EQ(feed.core->TryNext(0, &lease, &status), ReadResult::kRecord);
      lease.Release();
      EXPECT_EQ(CodeOfWait(feed.core.get(), 0, std::chrono::seconds(1)), StatusCode::kCancelled);
      continue;
    }
    while ((result = feed.core->TryNext(0, &lease, &status)) == ReadResult::kRecord) ++batches;
    EXPECT_EQ(result, ReadResult::kFailed);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_NE(status.message().find("device 1"), std::string::npos);
    EXPECT_GE(batches, 4);
    // Once it is served, the first goes on.
    ASSERT_EQ(feed.core->TryNext(1, &lease, &status), ReadResult::kRecord);
    lease.Release();
    EXPECT_EQ(feed.core->TryNext(0, &lease, &status), ReadResult::kRecord);
  }
}

}  // namespace
}  // namespace ringfeed
