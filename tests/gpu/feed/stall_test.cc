#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/gpu/feed/feed_scenario.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

constexpr double kStepNs = 1e6;
constexpr double kJitter = 0.3;

/// Times around a mean, log-normal, deviating by 30 %.
std::function<std::int64_t()> Jittered(double mean_ns, std::uint64_t seed) {
  const double sigma = std::sqrt(std::log(1 + kJitter * kJitter));
  auto random = std::make_shared<std::mt19937_64>(seed);
  auto times = std::make_shared<std::lognormal_distribution<double>>(
      std::log(mean_ns) - sigma * sigma / 2, sigma);
  return [=] { return static_cast<std::int64_t>((*times)(*random)); };
}

/// Steps of a millisecond on each device, batches come `supply` times as fast as they are used.
FeedScenario Steady(std::size_t devices, double supply, std::uint64_t seed) {
  FeedScenario scenario;
  scenario.devices.devices.resize(devices);
  scenario.supply.rows = 4096;  // 64 KiB
  scenario.supply.batches = 1000 * devices;
  scenario.supply.held = 2 * devices + 8;  // as a chain prepares them
  scenario.supply.poison = false;
  scenario.supply.interval_ns =
      Jittered(kStepNs / (supply * static_cast<double>(devices)), 2 * seed);
  scenario.step_ns = Jittered(kStepNs, 2 * seed + 1);
  scenario.steady_from = 40 * devices;
  scenario.test.poison = false;
  return scenario;
}

/// Of all steps but each device's first, the part that waited longer than a hundredth of a step.
double Stalled(const FeedOutcome& outcome, std::size_t devices) {
  std::size_t stalled = 0;
  for (std::size_t s = devices; s < outcome.seen.size(); ++s) {
    stalled += outcome.seen[s].stall_ms > kStepNs / 1e6 / 100 ? 1 : 0;
  }
  return static_cast<double>(stalled) / static_cast<double>(outcome.seen.size() - devices);
}

class StallTest : public testing::TestWithParam<std::size_t> {};

TEST_P(StallTest, NinetyNineStepsOfAHundredDoNotWaitWhereSupplyIsAFifthAboveDemand) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 1 : 3); ++seed) {
    const FeedScenario scenario = Steady(GetParam(), 1.2, seed);
    const FeedOutcome outcome = RunScenario(scenario);
    EXPECT_EQ(outcome.Wrong(scenario), "");
    EXPECT_LE(Stalled(outcome, GetParam()), 0.01) << "seed " << seed;
  }
}

TEST_P(StallTest, NothingIsAllocatedAndNobodyWaitsForADeviceInTheLoop) {
  const FeedScenario scenario = Steady(GetParam(), 1.2, 7);
  const FeedOutcome outcome = RunScenario(scenario);
  EXPECT_EQ(outcome.Wrong(scenario), "");
  EXPECT_EQ(outcome.steady.allocations, 0U);
  EXPECT_EQ(outcome.steady.syncs, 0U);
}

TEST_P(StallTest, WhereSupplyIsTooSlowItShows) {
  const FeedScenario scenario = Steady(GetParam(), 0.8, 1);
  EXPECT_GT(Stalled(RunScenario(scenario), GetParam()), 0.5);
}

// Shares of simulated time do not depend on a sanitizer: there two devices take every path.
const std::vector<std::size_t> kDevices =
    kSanitized ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{1, 2, 4, 8};

INSTANTIATE_TEST_SUITE_P(Devices, StallTest, testing::ValuesIn(kDevices),
                         [](const auto& test) { return std::to_string(test.param); });

}  // namespace
}  // namespace ringfeed
