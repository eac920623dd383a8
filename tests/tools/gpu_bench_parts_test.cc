#include <gtest/gtest.h>

#include <memory>

#include "gpu/feed/memory_batches.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tools/bench/figures.h"
#include "tools/bench/gpu_costs.h"
#include "tools/bench/gpu_device.h"
#include "tools/bench/gpu_runs.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kBatchBytes = 100'000;
constexpr std::size_t kBatches = 5;

OwnedDevice Emulated() {
  EmulatedOptions options;
  options.devices[0].link_bytes_per_s = 1e12;
  OwnedDevice device{EmulatedDevices::Open(options), 0};
  Require(device.backend->BindThread(0));
  return device;
}

// What the device gets is not what the checksums were made of.
void FlipOneBit(const MemoryBatches& batches, std::size_t number) {
  const Tensor& tensor = batches.batch(number).front();
  const_cast<std::byte*>(tensor.data)[tensor.bytes - 1] ^= std::byte{1};
}

TEST(MemoryFeed, EveryBatchIsVerified) {
  const MemoryBatches batches(kBatchBytes, kBatches);
  const MemoryFeedResult result =
      RunMemoryFeed(Emulated(), batches, {.seconds = 0.001, .verify = true});
  EXPECT_GT(result.batches, 2 * kBatches);
  EXPECT_EQ(result.wrong, 0U);
  EXPECT_GT(result.bytes_per_s, 0);
}

TEST(MemoryFeed, OneWrongBitOfOneBatchIsCountedEachTimeItComes) {
  const MemoryBatches batches(kBatchBytes, kBatches);
  FlipOneBit(batches, 3);
  const MemoryFeedResult result =
      RunMemoryFeed(Emulated(), batches, {.seconds = 0.001, .verify = true});
  // Batches 3, 8, 13, … of those that came.
  EXPECT_EQ(result.wrong, (result.batches + 1) / kBatches);
}

TEST(MemoryFeed, IsStoppedFromOutside) {
  const MemoryBatches batches(kBatchBytes, kBatches);
  const std::atomic<bool> stop = true;
  std::atomic<bool> running = false;
  const MemoryFeedResult result =
      RunMemoryFeed(Emulated(), batches, {.seconds = 1e6, .running = &running, .stop = &stop});
  EXPECT_TRUE(running);
  EXPECT_EQ(result.batches, 2 * SlotsFor(kBatchBytes) + 1);
}

TEST(Steps, EveryBatchIsVerifiedAndTheLoopNeverBlocks) {
  const OwnedDevice device = Emulated();
  const std::unique_ptr<StepLoad> load = NewStepLoad(device);
  const MemoryBatches batches(kBatchBytes, kBatches);
  const StepsResult good = RunSteps(device, load.get(), batches, {.seconds = 0.01});
  EXPECT_GT(good.steps(), 0U);
  EXPECT_EQ(good.wrong, 0U);
  EXPECT_EQ(good.host_syncs, 0U);
  EXPECT_EQ(good.allocations, 0U);
  FlipOneBit(batches, 0);
  EXPECT_GT(RunSteps(device, load.get(), batches, {.seconds = 0.01}).wrong, 0U);
}

TEST(CopyPeak, IsThatOfTheLinkWhereTheLinkIsSlow) {
  EmulatedOptions options;
  options.devices[0].link_bytes_per_s = 20e6;
  options.devices[0].copy_latency_ns = 0;
  const OwnedDevice device{EmulatedDevices::Open(options), 0};
  Require(device.backend->BindThread(0));
  const MemoryBatches batches(kBatchBytes, kBatches);
  const auto pins = HostPins::Of(device.backend, {});
  const double peak = CopyPeak(device, pins.get(), batches);
  // Never faster than the model, whatever else the machine does.
  EXPECT_LE(peak, 20.1e6);
  EXPECT_GT(peak, 0);
}

// The device's result is compared with the host's within.
TEST(CostRows, EveryCostIsMeasured) {
  const OwnedDevice device = Emulated();
  const MemoryBatches batches(std::size_t{16} << 20, 2);
  const auto pins = HostPins::Of(device.backend, {});
  const CostRows rows(device, pins.get(), batches);
  EXPECT_GT(rows.CopyNsPerKib(), 0);
  EXPECT_GT(rows.MemberNs(4096, 1, 0.001), 0);
  EXPECT_GT(rows.RowNs(0.001), 0);
}

TEST(CostRows, BatchesThatAreTooSmallAreRefused) {
  const OwnedDevice device = Emulated();
  const MemoryBatches batches(kBatchBytes, 2);
  const auto pins = HostPins::Of(device.backend, {});
  EXPECT_THROW(CostRows(device, pins.get(), batches), Error);
}

TEST(GpuFigure, IsMetOrMissedByItsMedian) {
  const GpuFigure low{"x", "", {0.9, 0.99, 0.94}, AtLeast(0.95)};
  EXPECT_EQ(low.Verdict(false), "missed");
  const GpuFigure high{"x", "", {0.9, 0.99, 0.96}, AtLeast(0.95)};
  EXPECT_EQ(high.Verdict(false), "met");
  const GpuFigure slow{"x", "", {11, 1, 12}, AtMost(10)};
  EXPECT_EQ(slow.Verdict(false), "missed");
  const GpuFigure fast{"x", "", {11, 1, 10}, AtMost(10)};
  EXPECT_EQ(fast.Verdict(false), "met");
}

TEST(GpuFigure, OfEmulatedDevicesIsNeverHeldAgainstATarget) {
  const GpuFigure figure{"x", "", {1}, AtLeast(0.5)};
  EXPECT_EQ(figure.Verdict(true), "not comparable");
  const GpuFigure without{"x", "", {1}, {}};
  EXPECT_EQ(without.Verdict(true), "");
  EXPECT_EQ(without.Verdict(false), "");
}

TEST(GpuSection, SaysWhyItGaveNothing) {
  GpuSection section{.name = "disk"};
  section.status = Status(StatusCode::kUnsupported, "no O_DIRECT");
  const Json json = SectionJson(section, false);
  EXPECT_TRUE(json["figures"].empty());
  EXPECT_NE(json["error"].get<std::string>().find("no O_DIRECT"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed::tools
