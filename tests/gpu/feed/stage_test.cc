#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "ringfeed/device_feed.h"
#include "tests/gpu/feed/feed_scenario.h"

// A stage in the order of its stream, under every schedule of the simulator. What it makes, and how
// it fails, is in tests/gpu/conformance/stage_conformance.cc, for every backend.

namespace ringfeed {
namespace {

/// Copies the first field's rows.
DeviceStage Copying() {
  return {.outputs = {{DType::kUInt32, {NumberedBatch::kColumns}}},
          .on_host = [](const StageCall& call) {
            std::memcpy(call.output(0), call.fields[0].data, call.fields[0].bytes);
            return Status();
          }};
}

FeedScenario Staged() {
  FeedScenario scenario;
  scenario.devices.devices.resize(2);
  scenario.supply.batches = 25;
  scenario.supply.ragged = true;
  scenario.feed.stage = Copying();
  return scenario;
}

/// Under some schedules; the third tensor is the stage's.
void ExpectGood(FeedScenario scenario) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    scenario.devices.policy = static_cast<SchedulePolicy>(seed % 5);
    scenario.devices.seed = seed;
    scenario.devices.split_bytes = seed % 2 == 0 ? 0 : 64;
    scenario.devices.late_queries = static_cast<int>(seed % 3);
    const FeedOutcome outcome = RunScenario(scenario);
    EXPECT_EQ(outcome.Wrong(scenario), "") << "seed " << seed;
    for (const TrainingLoop::Seen& seen : outcome.seen) {
      EXPECT_EQ(seen.checksums.at(2), seen.checksums[0]) << "batch " << seen.number;
    }
  }
}

TEST(StageTest, RunsAfterTheCopyAndTheTransformsAndBeforeTheConsumer) {
  FeedScenario scenario = Staged();
  ExpectGood(scenario);
  scenario.feed.transforms = {PadField{1, 3}};
  scenario.unused_every = 3;
  ExpectGood(scenario);
  scenario.looks_from_host = true;
  ExpectGood(scenario);
}

TEST(StageTest, GoesWithSlotsThatGrowAndMemoryThatIsStaged) {
  FeedScenario scenario = Staged();
  scenario.feed.last_step = LastStep::kPad;
  scenario.supply.batches = 24;
  scenario.supply.more_rows = 50;
  ExpectGood(scenario);
  scenario.supply.more_rows = 0;
  scenario.supply.in_arena = false;
  ExpectGood(scenario);
}

TEST(StageTest, ReadsNothingOfASlotThatIsFilledAgainAfterANewStart) {
  for (const std::uint64_t stop_after : {1U, 2U, 5U}) {
    FeedScenario scenario = Staged();
    scenario.stop_after = stop_after;
    ExpectGood(scenario);
    scenario.closed_first = true;
    ExpectGood(scenario);
  }
}

// Of the batches before it, some wait for their stage when it is planned.
TEST(StageTest, ABatchThatDoesNotFitFailsAfterEverythingGood) {
  FeedScenario scenario = Staged();
  scenario.supply.batches = 64;
  scenario.supply.ragged = false;
  scenario.supply.more_rows = 1;  // 4, 5, … rows of 32 bytes
  scenario.feed.fixed_slots = true;
  scenario.feed.slot_bytes = 2 * 512;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    scenario.devices.devices.resize(1 + seed % 2);
    scenario.devices.policy = static_cast<SchedulePolicy>(seed % 5);
    scenario.devices.seed = seed;
    const FeedOutcome outcome = RunScenario(scenario);
    EXPECT_EQ(outcome.status.code(), StatusCode::kResourceExhausted);
    EXPECT_NE(outcome.status.message().find("batch 29 needs"), std::string::npos)
        << outcome.status.message();
    EXPECT_EQ(outcome.seen.size(), 29U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ringfeed
