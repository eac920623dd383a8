#include "tools/feed/device_feed_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed::tools {
namespace {

constexpr std::uint64_t kRows = 20'000;
constexpr std::size_t kRowBytes = 16;

std::vector<DeviceFault> planned_faults;
std::shared_ptr<EmulatedDevices> last_opened;

/// "planned": two emulated devices in real time that fail as planned_faults says.
void RegisterPlannedDevices() {
  static const bool registered = [] {
    RegisterDeviceKind(
        "planned",
        [](const std::string&) {
          EmulatedOptions options;
          options.devices.resize(2);
          options.faults = planned_faults;
          last_opened = EmulatedDevices::Open(options);
          return std::shared_ptr<DeviceBackend>(last_opened);
        },
        [](int*) { return Status(); });
    return true;
  }();
  ASSERT_TRUE(registered);
}

class DeviceFeedRunTest : public testing::Test {
 protected:
  void SetUp() override {
    RegisterPlannedDevices();
    file_ = testing::TempDir() + "device_feed_run_" + std::to_string(::getpid()) + ".rows";
    std::ofstream file(file_, std::ios::binary);
    for (std::uint64_t row = 0; row < kRows; ++row) {
      const std::uint64_t words[2] = {row, ~row};
      file.write(reinterpret_cast<const char*>(words), sizeof words);
    }
    plan_.files = {file_};
    plan_.open.format = "rows:" + std::to_string(kRowBytes);
    plan_.parse = "rows: i4[4]";
    plan_.batch = 100;
    plan_.hash = PayloadHash::kXxh3;
    options_.devices = "planned";
    options_.step_ms = 0.1;
  }
  void TearDown() override {
    std::filesystem::remove(file_);
    last_opened.reset();
  }

  /// Runs it to whichever end, with faults.
  FeedResult Run(std::vector<DeviceFault> faults) {
    planned_faults = std::move(faults);
    DeviceFeedRun run(plan_, options_, true);
    FeedResult result = run.Run([](const HashSums&) { return true; });
    report_ = run.device_report();
    return result;
  }

  std::string file_;
  FeedPlan plan_;
  DeviceOptions options_;
  DeviceReport report_;
};

TEST_F(DeviceFeedRunTest, EveryRowArrivesAsItWasRead) {
  const FeedResult result = Run({});
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(result.delivered.records, kRows);
  EXPECT_EQ(result.batches, kRows / plan_.batch);
  EXPECT_EQ(report_.difference, "");
  EXPECT_TRUE(report_.hazards && report_.hazards->empty());
  EXPECT_TRUE(last_opened->Leaks().none());
  for (const DeviceResult& device : report_.devices) {
    EXPECT_EQ(device.back.bytes, device.stats.delivered_bytes);
    EXPECT_EQ(device.back.unpinned_bytes, 0U) << report_.pinning;
    EXPECT_GT(device.back.memory_bytes, 0U);
  }
}

TEST_F(DeviceFeedRunTest, ALoopThatFailsEndsTheOthersAndKeepsWhatPrecedesIt) {
  for (const DeviceCall call : {DeviceCall::kBusy, DeviceCall::kCopyToHost, DeviceCall::kRecord,
                                DeviceCall::kQuery, DeviceCall::kElapsed}) {
    const FeedResult result = Run({{.call = call, .nth = 60}});
    EXPECT_FALSE(result.interrupted);
    EXPECT_LE(result.delivered.records, kRows);
    EXPECT_EQ(report_.difference, "") << DeviceCallName(call);
    // A copy's span alone may go without its times.
    const bool told = !result.status.ok() || call == DeviceCall::kElapsed;
    EXPECT_TRUE(told) << DeviceCallName(call);
    EXPECT_TRUE(report_.hazards && report_.hazards->empty()) << report_.hazards->front();
    EXPECT_TRUE(last_opened->Leaks().none()) << DeviceCallName(call);
  }
}

TEST_F(DeviceFeedRunTest, AFailureOfSetUpIsTold) {
  options_.transfer = TransferPlan::kBatch;  // its calls are counted here
  // Behind those of the feed, which throws for its own.
  const std::vector<DeviceFault> faults = {{.call = DeviceCall::kBindThread, .nth = 4},
                                           {.call = DeviceCall::kCreateStream, .nth = 4},
                                           {.call = DeviceCall::kCreateEvent, .nth = 24}};
  for (const DeviceFault& fault : faults) {
    const FeedResult result = Run({fault});
    EXPECT_FALSE(result.status.ok()) << DeviceCallName(fault.call);
    EXPECT_TRUE(last_opened->Leaks().none()) << DeviceCallName(fault.call);
  }
  EXPECT_THROW(Run({{.call = DeviceCall::kCreateStream, .nth = 1}}), Error);
}

TEST_F(DeviceFeedRunTest, ADeviceThatIsLostEndsTheRun) {
  for (const DeviceCall call : {DeviceCall::kBusy, DeviceCall::kCopyToDevice}) {
    const FeedResult result = Run({{.call = call, .nth = 50, .effect = FaultEffect::kDeviceLost}});
    EXPECT_EQ(result.status.code(), StatusCode::kDeviceLost) << result.status.ToString();
    EXPECT_LT(result.delivered.records, kRows);
    EXPECT_EQ(report_.difference, "");
  }
}

TEST_F(DeviceFeedRunTest, StoppedBeforeItBeganItDeliversNothing) {
  DeviceFeedRun run(plan_, options_, true);
  run.Stop();
  const FeedResult result = run.Run([](const HashSums&) { return true; });
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.delivered.records, 0U);
}

}  // namespace
}  // namespace ringfeed::tools
