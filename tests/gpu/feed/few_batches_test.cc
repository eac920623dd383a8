#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/feed/counting_rows.h"
#include "tests/support/stress_scale.h"

// Feeds over readers that have few batches: copies hold them until the host has seen these done.

namespace ringfeed {
namespace {

constexpr std::size_t kBatch = 8;
constexpr std::uint64_t kBatches = 100;

Reader FewBatches(std::size_t slots) {
  auto rows = std::make_unique<CountingRows>(static_cast<std::int64_t>(kBatches * kBatch));
  return Batch(FromInstanceSource(std::move(rows), {{"number", DType::kInt64, {}}}),
               {.size = kBatch, .slots = slots});
}

/// Takes every batch without ever waiting for its copy.
void ExpectAll(DeviceFeed* feed) {
  for (std::uint64_t number = 0; number < kBatches; ++number) {
    DeviceLease lease;
    Status status;
    ASSERT_EQ(feed->TryNext(&lease, &status), ReadResult::kRecord)
        << "behind " << number << " batches: " << status.ToString();
    ASSERT_EQ(lease.number(), number);
  }
  DeviceLease lease;
  Status status;
  EXPECT_EQ(feed->TryNext(&lease, &status), ReadResult::kEnd) << status.ToString();
}

TEST(FewBatchesTest, ASimulatedFeedWaitsForTheCopiesThatHoldThem) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::kTimed, SchedulePolicy::kLazy, SchedulePolicy::kRandom}) {
    for (const std::size_t devices : {1U, 2U, 3U}) {
      for (const std::size_t batches : {2U, 3U, 4U, 5U, 8U}) {
        for (const std::size_t slots : {2U, 3U, 12U}) {
          if (kSanitized && (devices + batches + slots) % 2 == 0) continue;  // for time
          SCOPED_TRACE(testing::Message()
                       << devices << " devices, " << slots << " slots, " << batches << " batches");
          EmulatedOptions options;
          options.simulated = true;
          options.policy = policy;
          options.seed = slots;
          options.devices.resize(devices);
          FeedOptions feed_options;
          feed_options.backend = EmulatedDevices::Open(options);
          feed_options.slots = slots;
          DeviceFeed feed(FewBatches(batches), feed_options);
          ExpectAll(&feed);
          feed.ReInit();
          ExpectAll(&feed);
        }
      }
    }
  }
}

TEST(FewBatchesTest, AClosedFeedReadsNoMore) {
  const auto first_behind = [](int asked) {
    EmulatedOptions options;
    options.simulated = true;
    FeedOptions feed_options;
    feed_options.backend = EmulatedDevices::Open(options);
    Reader reader = FewBatches(8);
    DeviceFeed feed(reader, feed_options);
    EXPECT_TRUE(feed.Next());
    EXPECT_TRUE(feed.Close().ok());
    for (int i = 0; i < asked; ++i) EXPECT_THROW((void)feed.Next(), Error);
    const Instance batch = reader.ReadNext();
    return *reinterpret_cast<const std::int64_t*>(batch[0].data);
  };
  EXPECT_EQ(first_behind(3), first_behind(0));
}

TEST(FewBatchesTest, SoDoesAFeedWithThreads) {
  EmulatedOptions options;
  options.devices.resize(2);
  options.devices[0].copy_latency_ns = options.devices[1].copy_latency_ns = 200'000;
  FeedOptions feed_options;
  feed_options.backend = EmulatedDevices::Open(options);
  feed_options.slots = 12;
  DeviceFeed feed(FewBatches(2), feed_options);
  ExpectAll(&feed);
}

}  // namespace
}  // namespace ringfeed
