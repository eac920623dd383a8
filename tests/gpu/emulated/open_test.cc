#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "gpu/backends/emulated/device_state.h"
#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

std::string RefusalOf(const EmulatedOptions& options) {
  try {
    EmulatedDevices::Open(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    return error.status().message();
  }
  return {};
}

TEST(OpenEmulated, ANumberOfLikeDevicesInRealTime) {
  const auto devices = EmulatedDevices::Open(3);
  EXPECT_EQ(devices->DeviceCount(), 3);
  EXPECT_EQ(devices->name(), "emu");
  EXPECT_FALSE(devices->simulated());
  EXPECT_THROW(EmulatedDevices::Open(0), Error);
}

TEST(OpenEmulated, OptionsThatCannotWorkAreRefused) {
  const auto refused = [](auto change) {
    EmulatedOptions options = Simulated();
    change(options);
    return !RefusalOf(options).empty();
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& options) { options.devices.clear(); }));
  EXPECT_TRUE(refused([](auto& options) { options.devices[0].memory_bytes = 0; }));
  EXPECT_TRUE(refused([](auto& options) { options.devices[0].link_bytes_per_s = 0; }));
  EXPECT_TRUE(refused([](auto& options) { options.devices[0].copy_latency_ns = -1; }));
  EXPECT_TRUE(refused([](auto& options) { options.devices[0].speed = 0; }));
  EXPECT_TRUE(refused(
      [](auto& options) { options.devices[0].speed = std::numeric_limits<double>::infinity(); }));
  EXPECT_TRUE(refused([](auto& options) { options.late_queries = -1; }));
  EXPECT_TRUE(refused([](auto& options) { options.faults = {{DeviceCall::kFill, 0}}; }));
}

TEST(OpenEmulated, FaultsForLaterNeedACallThatEnqueues) {
  for (std::size_t i = 0; i < kDeviceCalls; ++i) {
    EmulatedOptions options = Simulated();
    const auto call = static_cast<DeviceCall>(i);
    options.faults = {{call, 1, FaultEffect::kLater}};
    const bool enqueues = i >= static_cast<std::size_t>(DeviceCall::kRecord) &&
                          i <= static_cast<std::size_t>(DeviceCall::kBusy) &&
                          call != DeviceCall::kQuery;
    EXPECT_EQ(RefusalOf(options).empty(), enqueues) << DeviceCallName(call);
  }
}

TEST(OpenEmulated, AScheduleIsForTheSimulatorAlone) {
  EmulatedOptions options = Threaded();
  options.policy = SchedulePolicy::kRandom;
  EXPECT_NE(RefusalOf(options).find("set simulated"), std::string::npos);
}

TEST(OpenEmulated, CallsHaveNames) {
  EXPECT_EQ(DeviceCallName(DeviceCall::kInfo), "Info");
  EXPECT_EQ(DeviceCallName(DeviceCall::kCopyBatchToDevice), "CopyBatchToDevice");
  EXPECT_EQ(DeviceCallName(DeviceCall::kDeviceStatus), "DeviceStatus");
}

TEST(EmulatedMemory, InfoTellsWhatIsLeft) {
  EmulatedOptions options = Simulated();
  options.devices[0].memory_bytes = 1'000;
  DeviceRig rig(options);
  std::byte* memory = rig.Device(600);
  DeviceInfo info;
  rig.Expect(rig->Info(0, &info));
  EXPECT_EQ(info.memory_bytes, 1'000U);
  EXPECT_EQ(info.free_bytes, 400U);
  EXPECT_TRUE(info.registers_host_memory);
  std::byte* more = nullptr;
  EXPECT_EQ(rig->AllocDevice(0, 401, &more).code(), StatusCode::kResourceExhausted);
  rig.Expect(rig->FreeDevice(0, memory));
  rig.Expect(rig->AllocDevice(0, 1'000, &more));
}

TEST(EmulatedMemory, IsAlignedAndPoisoned) {
  DeviceRig rig(Simulated());
  std::byte* memory = rig.Device(1'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  EXPECT_EQ(std::vector(memory, memory + 1'000), std::vector(1'000, std::byte{0xEE}));
  rig.Expect(rig->FreeDevice(0, memory));
  // It is kept for a while.
  EXPECT_EQ(std::vector(memory, memory + 1'000), std::vector(1'000, std::byte{0xFD}));
}

TEST(EmulatedMemory, IsAlignedWhateverItsSize) {
  DeviceRig rig(Simulated());
  for (std::size_t bytes = 1; bytes <= 4'096; bytes += bytes % 64 == 0 ? 1 : 63) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rig.Device(bytes)) % 256, 0U) << bytes;
  }
}

TEST(EmulatedMemory, LeaksAreCountedByKind) {
  DeviceRig rig(Simulated());
  rig.Device(8);
  rig.Host(8);
  rig.Host(8);
  rig.Stream();
  for (int i = 0; i < 3; ++i) rig.Event();
  const DeviceLeaks leaks = rig->Leaks();
  EXPECT_EQ(leaks.allocations, 1U);
  EXPECT_EQ(leaks.registrations, 2U);
  EXPECT_EQ(leaks.streams, 1U);
  EXPECT_EQ(leaks.events, 3U);
  EXPECT_FALSE(leaks.none());
}

TEST(EmulatedMemory, IsDescribedByNumbersAndOffsets) {
  const std::vector<EmulatedDevice> devices(2);
  EmulatedMemory memory(devices);
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  ASSERT_TRUE(memory.Allocate(0, 100, &first).ok());
  ASSERT_TRUE(memory.Allocate(1, 100, &second).ok());
  std::vector<std::byte> host(100);
  ASSERT_TRUE(memory.Register(host.data(), 50));
  EXPECT_EQ(memory.Describe(second + 7), "allocation 1 of device 1 + 7");
  EXPECT_EQ(memory.Describe(host.data() + 49), "registration 0 + 49");
  EXPECT_EQ(memory.Describe(host.data() + 50), "memory that nobody knows");
  EXPECT_EQ(memory.Describe(nullptr), "null");
}

}  // namespace
}  // namespace ringfeed
