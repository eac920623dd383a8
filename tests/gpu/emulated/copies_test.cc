#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

/// On both clocks. What all backends do is tested by tests/gpu/conformance.
class Copies : public testing::TestWithParam<bool> {
 protected:
  static EmulatedOptions Options() { return GetParam() ? Simulated() : Threaded(); }
};

TEST_P(Copies, FunctionsRunOnceInTheirPlace) {
  DeviceRig rig(Options());
  std::byte* memory = rig.Device(8);
  const DeviceStream stream = rig.Stream();
  std::byte seen{};
  rig.Expect(rig->Fill(stream, memory, std::byte{9}, 8));
  const std::array<MemoryAccess, 1> reads = {MemoryAccess{memory, 8, false}};
  rig.Expect(rig->LaunchHost(
      stream, [&] { seen = memory[7]; }, reads));
  rig.Expect(rig->Fill(stream, memory, std::byte{10}, 8));
  rig.Expect(rig->SyncStream(stream));
  EXPECT_EQ(seen, std::byte{9});
  rig.ExpectNoOffence();
}

TEST_P(Copies, FromUnregisteredMemoryBlockWhereThatIsAllowed) {
  EmulatedOptions options = Options();
  options.strict = false;
  DeviceRig rig(options);
  std::byte* source = rig.Pageable(1'000, std::byte{5});
  std::byte* memory = rig.Device(1'000);
  const DeviceStream stream = rig.Stream();
  const std::int64_t before_ns = rig->NowNanos();
  rig.Expect(rig->CopyToDevice(stream, memory, source, 1'000));
  EXPECT_GE(rig->NowNanos() - before_ns, options.devices[0].copy_latency_ns);
  rig->NoteHostWrite(source, 1'000, "refill");
  std::memset(source, 0, 1'000);
  EXPECT_EQ(rig.ReadBack(stream, memory, 1'000), std::vector(1'000, std::byte{5}));
  rig.ExpectNoOffence();
}

TEST_P(Copies, OfNothingAreNoWork) {
  DeviceRig rig(Options());
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->CopyToDevice(stream, nullptr, nullptr, 0));
  rig.Expect(rig->CopyToHost(stream, nullptr, nullptr, 0));
  rig.Expect(rig->CopyBatchToDevice(stream, {}));
  rig.Expect(rig->Fill(stream, nullptr, {}, 0));
  rig.Expect(rig->SyncStream(stream));
  rig.ExpectNoOffence();
}

TEST_P(Copies, WhatIsEnqueuedRunsWhenTheDevicesEnd) {
  std::atomic<int> runs = 0;
  {
    DeviceRig rig(Options());
    const DeviceStream stream = rig.Stream();
    rig.Expect(rig->Busy(stream, 1'000'000));
    rig.Expect(rig->LaunchHost(stream, [&] { ++runs; }, {}));
    if (rig->simulated()) rig->Drain();
  }
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(Clocks, Copies, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Simulated" : "Threaded";
});

}  // namespace
}  // namespace ringfeed
