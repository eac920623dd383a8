#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/export/dlpack.h"
#include "ringfeed/export/shared_lease.h"
#include "tests/gpu/feed/counting_rows.h"
#include "tests/gpu/feed/forwarding_backend.h"
#include "tests/gpu/feed/training_loop.h"

// The feed with its threads, on devices in real time.

namespace ringfeed {
namespace {

constexpr std::int64_t kRows = 2000;
constexpr std::size_t kBatch = 10;

std::uint64_t SumOf(std::uint64_t batch) {
  std::vector<std::int64_t> rows;
  for (std::size_t r = 0; r < kBatch; ++r) {
    rows.push_back(static_cast<std::int64_t>(batch * kBatch + r));
  }
  return ChecksumOf(std::as_bytes(std::span(rows)));
}

std::shared_ptr<EmulatedDevices> UnequalDevices(std::size_t count) {
  EmulatedOptions options;
  options.devices.resize(count);
  for (std::size_t d = 0; d < count; ++d) {
    options.devices[d].speed = 1.0 + static_cast<double>(d);
    options.devices[d].copy_latency_ns = 1000 * static_cast<std::int64_t>(1 + count - d);
  }
  return EmulatedDevices::Open(options);
}

FeedOptions On(std::shared_ptr<EmulatedDevices> backend) {
  FeedOptions options;
  options.backend = std::move(backend);
  return options;
}

/// A loop per device, each in a thread of its own, to the end of the data.
std::vector<TrainingLoop::Seen> TrainAll(DeviceFeed* feed, EmulatedDevices* emulated) {
  std::mutex mutex;
  std::vector<TrainingLoop::Seen> seen;
  std::vector<std::jthread> threads;
  for (std::size_t d = 0; d < feed->devices().size(); ++d) {
    threads.emplace_back([&, d] {
      TrainingLoop loop(feed->backend(), feed->devices()[d],
                        {.most_tensors = 1, .step_ns = [] { return std::int64_t{20'000}; }});
      emulated->SetHotPath(true);
      while (auto lease = feed->Next(d)) ASSERT_TRUE(loop.Step(std::move(*lease)));
      emulated->SetHotPath(false);
      ASSERT_TRUE(loop.Finish());
      const std::lock_guard lock(mutex);
      seen.insert(seen.end(), loop.seen().begin(), loop.seen().end());
    });
  }
  threads.clear();
  return seen;
}

void ExpectEveryBatchOnce(const std::vector<TrainingLoop::Seen>& seen) {
  std::vector<int> times(kRows / kBatch);
  for (const auto& each : seen) {
    ASSERT_LT(each.number, times.size());
    ++times[each.number];
    EXPECT_EQ(each.checksums[0], SumOf(each.number));
  }
  for (const int count : times) EXPECT_EQ(count, 1);
}

TEST(ThreadedFeedTest, LoopsOfUnequalDevicesTogetherGetEveryBatchOnce) {
  for (const std::size_t devices : {1U, 2U, 4U, 8U}) {
    const auto backend = UnequalDevices(devices);
    {
      DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
      ExpectEveryBatchOnce(TrainAll(&feed, backend.get()));
      for (const DeviceFeedStats& device : feed.Stats().devices) {
        EXPECT_EQ(device.batches, kRows / kBatch / devices);
      }
    }
    EXPECT_TRUE(backend->Leaks().none());
    EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
  }
}

TEST(ThreadedFeedTest, OneLoopOverAllDevicesGetsBatchesInOrder) {
  const auto backend = EmulatedDevices::Open(3);
  DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
  std::uint64_t next = 0;
  while (auto lease = feed.Next()) {
    EXPECT_EQ(lease->number(), next);
    EXPECT_EQ(lease->device(), static_cast<int>(next % 3));
    (void)lease->WaitHost();
    ++next;
  }
  EXPECT_EQ(next, kRows / kBatch);
}

TEST(ThreadedFeedTest, ADeviceWithoutARowOfTheFirstBatchGetsItsPartAllTheSame) {
  FeedOptions options = On(EmulatedDevices::Open(3));
  options.distribution = Distribution::kSplit;
  for (const bool fixed_slots : {false, true}) {
    options.fixed_slots = fixed_slots;
    DeviceFeed feed(CountingBatches(1, 6), options);
    for (const std::uint64_t rows : {1U, 0U, 0U}) EXPECT_EQ(feed.Next()->rows(), rows);
    EXPECT_FALSE(feed.Next());
  }
}

TEST(ThreadedFeedTest, TheEndComesAlsoWhereEveryLeaseIsHeld) {
  FeedOptions options = On(EmulatedDevices::Open(1));
  options.slots = 3;
  DeviceFeed feed(CountingBatches(30, 10), options);
  std::vector<DeviceLease> held;
  while (auto lease = feed.Next()) held.push_back(std::move(*lease));
  EXPECT_EQ(held.size(), 3U);
}

// As where one thread takes leases ahead for another one, whose steps take long.
TEST(ThreadedFeedTest, WhoHandsLeasesOnWaitsForThemWithPatience) {
  FeedOptions options = On(EmulatedDevices::Open(1));
  options.slots = 3;
  DeviceFeed feed(CountingBatches(200, 10), options);
  std::vector<DeviceLease> queued(3);
  Status status;
  for (DeviceLease& lease : queued) ASSERT_EQ(feed.TryNext(&lease, &status), ReadResult::kRecord);
  DeviceLease used;
  std::jthread([&] {
    used = std::move(queued.front());
    EXPECT_EQ(used.number(), 0U);
    used.Release();
  }).join();
  ASSERT_EQ(feed.TryNext(&queued.front(), &status), ReadResult::kRecord);
  DeviceLease next;
  const auto wait = [&](int ms) {
    return feed.TryNext(&next, &status, DeadlineAfter(std::chrono::milliseconds(ms)));
  };
  EXPECT_EQ(wait(800), ReadResult::kTimeout) << status.ToString();
  std::jthread([&] { queued.back().Release(); }).join();
  EXPECT_EQ(wait(60'000), ReadResult::kRecord) << status.ToString();
}

// The other feed has read ahead, and would hand that out in the new pass.
TEST(ThreadedFeedTest, FeedsOfOneSharedReaderDoNotStartAgainUnderEachOther) {
  const auto backend = EmulatedDevices::Open(2);
  const Reader shared = Share(CountingReader(kRows));
  FeedOptions options = On(backend);
  options.devices = {0};
  DeviceFeed one(Batch(shared, {.size = kBatch}), options);
  options.devices = {1};
  auto two = std::make_unique<DeviceFeed>(Batch(shared, {.size = kBatch}), options);
  ASSERT_TRUE(one.Next() && two->Next());
  EXPECT_THROW(one.ReInit(), Error);
  EXPECT_THROW(two->ReInit(), Error);
  std::size_t batches = 2;
  while (one.Next()) ++batches;
  while (two->Next()) ++batches;
  EXPECT_EQ(batches, kRows / kBatch);
  two.reset();
  one.ReInit();
  batches = 0;
  while (one.Next()) ++batches;
  EXPECT_EQ(batches, kRows / kBatch);
}

TEST(ThreadedFeedTest, ReInitStartsAgainFromAnywhere) {
  const auto backend = EmulatedDevices::Open(2);
  DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
  for (int times = 0; times < 20; ++times) {
    for (int batch = 0; batch < times * 3; ++batch) {
      EXPECT_EQ(feed.Next()->number(), static_cast<std::uint64_t>(batch));
    }
    feed.ReInit();
  }
  ExpectEveryBatchOnce(TrainAll(&feed, backend.get()));
}

TEST(ThreadedFeedTest, ALeaseThatIsReleasedInACaptureComesBackAfterIt) {
  const auto backend = EmulatedDevices::Open(1);
  DeviceStream stream;
  ASSERT_TRUE(backend->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  {
    DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
    auto captured = feed.Next();
    (void)captured->On(stream);
    backend->SetCapture(stream, true);
    captured->Release();
    // The other slots go on; that one must not: its consumers may still be at work.
    for (int batch = 1; batch < 20; ++batch) {
      auto lease = feed.Next();
      EXPECT_NE(lease->slot(), 0U);
      (void)lease->WaitHost();
    }
    auto lease = feed.Next();
    try {
      (void)lease->On(stream);
      ADD_FAILURE() << "it would wait within the graph";
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    }
    lease->Release();
    backend->SetCapture(stream, false);
    bool came_back = false;
    while (auto next = feed.Next()) {
      came_back = came_back || next->slot() == 0;
      (void)next->WaitHost();
    }
    EXPECT_TRUE(came_back);
    EXPECT_TRUE(feed.Close().ok());
  }
  ASSERT_TRUE(backend->DestroyStream(stream).ok());
  EXPECT_TRUE(backend->Leaks().none());
}

TEST(ThreadedFeedTest, AStreamOfAnotherDeviceIsRefusedAtOnce) {
  const auto backend = EmulatedDevices::Open(2);
  DeviceStream stream;
  ASSERT_TRUE(backend->CreateStream(1, StreamPriority::kNormal, &stream).ok());
  DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
  auto lease = feed.Next(0);
  try {
    (void)lease->On(stream);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.status().message().find("on device 1"), std::string::npos);
  }
  lease->Release();
  EXPECT_TRUE(feed.Next(0));  // nothing is lost by it
  lease.reset();
  EXPECT_TRUE(backend->DestroyStream(stream).ok());
}

TEST(ThreadedFeedTest, LeasesOutliveTheFeed) {
  const auto backend = EmulatedDevices::Open(1);
  std::vector<DeviceLease> leases;
  {
    DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
    leases.push_back(*feed.Next());
    leases.push_back(*feed.Next());
  }
  EXPECT_FALSE(backend->Leaks().none());
  {
    TrainingLoop loop(backend, 0, {.most_tensors = 1});
    for (DeviceLease& lease : leases) ASSERT_TRUE(loop.Step(std::move(lease)));
    ASSERT_TRUE(loop.Finish());
    for (std::uint64_t b = 0; b < 2; ++b) EXPECT_EQ(loop.seen()[b].checksums[0], SumOf(b));
  }
  EXPECT_TRUE(backend->Leaks().none());
}

TEST(ThreadedFeedTest, TensorsKeepTheirLease) {
  const auto backend = EmulatedDevices::Open(1);
  Instance tensors;
  {
    DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
    tensors = SharedLease::Of(std::move(*feed.Next()))->Tensors();
  }
  EXPECT_EQ(PlaceName(tensors[0].place), "EMU:0");
  const Instance copy = tensors;
  tensors.clear();
  EXPECT_FALSE(backend->Leaks().none());
}

TEST(ThreadedFeedTest, ExportedTensorsKeepTheirLease) {
  const auto backend = EmulatedDevices::Open(1);
  dlpack::DLManagedTensorVersioned* exported = nullptr;
  {
    DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
    const Instance tensors = SharedLease::Of(std::move(*feed.Next()))->Tensors();
    exported = dlpack::ExportVersioned(tensors[0]);
  }
  EXPECT_EQ(exported->dl_tensor.shape[0], static_cast<std::int64_t>(kBatch));
  EXPECT_FALSE(backend->Leaks().none());
  exported->deleter(exported);
  EXPECT_TRUE(backend->Leaks().none());
}

TEST(ThreadedFeedTest, AClosedFeedHoldsNoStagingMemory) {
  const std::shared_ptr<Arena> arena = Arena::Default();
  const std::size_t before = arena->Use().in_use_bytes;
  Reader reader = CountingReader(100);
  DeviceFeed feed(reader, On(EmulatedDevices::Open(2)));
  std::optional<DeviceLease> lease = feed.Next();
  for (int k = 0; k < 20; ++k) (void)feed.Next();
  EXPECT_GT(arena->Use().in_use_bytes, before);
  EXPECT_TRUE(feed.Close().ok());
  reader.Close();
  EXPECT_EQ(arena->Use().in_use_bytes, before);
  EXPECT_EQ(lease->number(), 0U);
}

TEST(ThreadedFeedTest, AChainEndsWithItsFeedNotWithTheLastLease) {
  struct Endless final : InstanceSource {
    Endless(std::atomic<bool>* is_waiting, std::atomic<bool>* is_stopped)
        : waiting(is_waiting), stopped(is_stopped) {}
    ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
      const ReadResult result = rows.ReadNext(instance, stop, status);
      if (result == ReadResult::kRecord) return result;
      *waiting = true;
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      *stopped = true;
      return result;
    }
    bool ReInit() override { return rows.ReInit(); }
    CountingRows rows{kBatch};
    std::atomic<bool>* waiting;
    std::atomic<bool>* stopped;
  };
  std::atomic<bool> waiting{false};
  std::atomic<bool> stopped{false};
  const auto backend = EmulatedDevices::Open(1);
  DeviceLease lease;
  {
    DeviceFeed feed(Batch(FromInstanceSource(std::make_unique<Endless>(&waiting, &stopped),
                                             {{"number", DType::kInt64, {}}}),
                          {.size = kBatch}),
                    On(backend));
    lease = std::move(*feed.Next());
    while (!waiting) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(stopped);
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(lease.WaitHost()[0].shape[0], static_cast<std::int64_t>(kBatch));
}

TEST(ThreadedFeedTest, CloseEndsWhoeverWaits) {
  const auto backend = EmulatedDevices::Open(2);
  DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
  std::atomic<int> cancelled{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Status status;
      DeviceLease lease;
      ReadResult result{};
      // Nobody serves device 1, so in the end all of them wait.
      while ((result = feed.TryNext(0, &lease, &status)) == ReadResult::kRecord) lease.Release();
      if (result == ReadResult::kFailed && status.code() == StatusCode::kCancelled) ++cancelled;
    });
  }
  while (feed.Stats().devices[0].batches < 3) std::this_thread::yield();
  EXPECT_TRUE(feed.Close().ok());
  threads.clear();
  EXPECT_EQ(cancelled, 4);
}

TEST(ThreadedFeedTest, ALostDeviceEndsTheFeedWithItsStatus) {
  EmulatedOptions options;
  options.devices.resize(2);
  options.faults = {{DeviceCall::kRecord, 40, FaultEffect::kDeviceLost}};
  const auto backend = EmulatedDevices::Open(options);
  {
    DeviceFeed feed(CountingBatches(kRows, kBatch), On(backend));
    DeviceLease lease;
    Status status;
    int batches = 0;
    ReadResult result{};
    while ((result = feed.TryNext(&lease, &status)) == ReadResult::kRecord) ++batches;
    EXPECT_EQ(result, ReadResult::kFailed);
    EXPECT_EQ(status.code(), StatusCode::kDeviceLost) << status.ToString();
    EXPECT_LT(batches, 60);  // the other device may be some slots behind
  }
  EXPECT_TRUE(backend->Leaks().none());
}

TEST(ThreadedFeedTest, WhatAnotherThreadHoldsIsWaitedForWithPatience) {
  const auto backend = EmulatedDevices::Open(1);
  FeedOptions options = On(backend);
  options.patience_ms = 30;
  DeviceFeed feed(CountingBatches(kRows, kBatch), options);
  std::vector<DeviceLease> held;
  std::jthread([&] {
    for (int i = 0; i < 3; ++i) held.push_back(*feed.Next());
  }).join();
  DeviceLease lease;
  Status status;
  EXPECT_EQ(feed.TryNext(&lease, &status), ReadResult::kFailed);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("other threads"), std::string::npos);
  held.pop_back();
  EXPECT_EQ(feed.TryNext(&lease, &status), ReadResult::kRecord);
}

TEST(ThreadedFeedTest, SlotsThatWaitForTheEndOfACaptureAreWaitedForWithPatience) {
  const auto backend = EmulatedDevices::Open(1);
  DeviceStream stream;
  ASSERT_TRUE(backend->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  {
    FeedOptions options = On(backend);
    options.slots = 2;
    options.patience_ms = 30;
    DeviceFeed feed(CountingBatches(kRows, kBatch), options);
    std::vector<DeviceLease> held;
    for (int i = 0; i < 2; ++i) {
      held.push_back(*feed.Next());
      (void)held.back().On(stream);
    }
    backend->SetCapture(stream, true);
    held.clear();
    DeviceLease lease;
    Status status;
    EXPECT_EQ(feed.TryNext(&lease, &status, DeadlineAfter(std::chrono::seconds(20))),
              ReadResult::kFailed);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_NE(status.message().find("end the capture"), std::string::npos) << status.message();
    backend->SetCapture(stream, false);
    EXPECT_EQ(feed.TryNext(&lease, &status), ReadResult::kRecord);
  }
  ASSERT_TRUE(backend->DestroyStream(stream).ok());
}

/// A release cannot be recorded, as often as is asked for.
class FailingReleases final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status RecordUnlessCaptured(DeviceEvent event, DeviceStream stream, bool* captured) override {
    if (fail.load() == 0) return ForwardingBackend::RecordUnlessCaptured(event, stream, captured);
    --fail;
    *captured = false;
    return Status(StatusCode::kIoError, "a release is not recorded");
  }

  std::atomic<int> fail = 0;
};

TEST(ThreadedFeedTest, AFeedThatLostSlotsGoesOnWithTheOthersAndFailsWithoutAny) {
  const auto devices = EmulatedDevices::Open(1);
  const auto backend = std::make_shared<FailingReleases>(devices);
  DeviceStream stream;
  ASSERT_TRUE(devices->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  {
    FeedOptions options;
    options.backend = backend;
    options.slots = 2;
    options.patience_ms = 30;
    DeviceFeed feed(CountingBatches(kRows, kBatch), options);
    DeviceLease lease;
    Status status;
    const auto next = [&](DeviceLease* to) {
      status = {};
      return feed.TryNext(to, &status, DeadlineAfter(std::chrono::seconds(20)));
    };
    const auto lose_one = [&] {
      (void)lease.On(stream);
      backend->fail = 1;
      lease.Release();
      ReadResult result{};
      while ((result = next(&lease)) == ReadResult::kRecord) {
      }
      EXPECT_EQ(result, ReadResult::kFailed);
      EXPECT_EQ(status.code(), StatusCode::kIoError) << status.ToString();
      feed.ReInit();
    };
    ASSERT_EQ(next(&lease), ReadResult::kRecord);
    lose_one();
    ASSERT_EQ(next(&lease), ReadResult::kRecord);
    DeviceLease second;
    EXPECT_EQ(next(&second), ReadResult::kFailed);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_NE(status.message().find("all 1 batches"), std::string::npos) << status.message();
    lose_one();
    EXPECT_EQ(next(&lease), ReadResult::kFailed);
    EXPECT_EQ(status.code(), StatusCode::kIoError) << status.ToString();
  }
  ASSERT_TRUE(devices->DestroyStream(stream).ok());
}

TEST(ThreadedFeedTest, SetUpErrorsSayWhatToDo) {
  const auto refusal = [](FeedOptions options) -> std::string {
    options.backend = EmulatedDevices::Open(2);
    try {
      const DeviceFeed feed(CountingBatches(kRows, kBatch), options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  FeedOptions options;
  options.slots = 1;
  EXPECT_NE(refusal(options).find("from 2"), std::string::npos);
  options = {};
  options.devices = {0, 2};
  EXPECT_NE(refusal(options).find("there is no device 2"), std::string::npos);
  options.devices = {1, 1};
  EXPECT_NE(refusal(options).find("twice"), std::string::npos);
}

// This program never calls UseCuda.
TEST(ThreadedFeedTest, WithoutABackendAndWithoutAGpuThereIsNoFeed) {
  for (const std::vector<int>& devices : {std::vector<int>{}, {0}, {0, 1}}) {
    FeedOptions options;
    options.devices = devices;
    try {
      const DeviceFeed feed(CountingBatches(kRows, kBatch), options);
      ADD_FAILURE() << "it took " << feed.backend()->name();
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kUnsupported);
      EXPECT_NE(error.status().message().find("CUDA"), std::string::npos);
      EXPECT_NE(error.status().message().find("\"emu:2\""), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ringfeed
