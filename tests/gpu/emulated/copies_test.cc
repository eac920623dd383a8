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

/// Both executors.
class Copies : public testing::TestWithParam<bool> {
 protected:
  static EmulatedOptions Options() { return GetParam() ? Simulated() : Threaded(); }
};

TEST_P(Copies, BytesArriveAndComeBack) {
  DeviceRig rig(Options());
  constexpr std::size_t kBytes = 10'000;
  std::byte* source = rig.Host(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) source[i] = static_cast<std::byte>(i * 7);
  std::byte* memory = rig.Device(kBytes);
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->CopyToDevice(stream, memory, source, kBytes));
  EXPECT_EQ(rig.ReadBack(stream, memory, kBytes), std::vector(source, source + kBytes));
  rig.Expect(rig->DestroyStream(stream));
  rig.Expect(rig->FreeDevice(0, memory));
  rig.Expect(rig->UnregisterHost(source));
  EXPECT_TRUE(rig->Leaks().none());
  rig.ExpectNoOffence();
}

TEST_P(Copies, ABatchBringsEveryPiece) {
  DeviceRig rig(Options());
  constexpr std::size_t kPieces = 50;
  constexpr std::size_t kBytes = 100;
  std::byte* source = rig.Host(kPieces * kBytes);
  std::byte* memory = rig.Device(kPieces * kBytes);
  std::vector<CopyPiece> pieces;
  std::vector<std::byte> expected(kPieces * kBytes);
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::size_t place = (i * 17) % kPieces;
    std::memset(source + i * kBytes, static_cast<int>(i + 1), kBytes);
    std::memset(expected.data() + place * kBytes, static_cast<int>(i + 1), kBytes);
    pieces.push_back({memory + place * kBytes, source + i * kBytes, kBytes});
  }
  pieces.push_back({});
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->CopyBatchToDevice(stream, pieces));
  EXPECT_EQ(rig.ReadBack(stream, memory, expected.size()), expected);
  const BackendCounters counters = rig->Counters();
  EXPECT_EQ(counters.copies, kPieces + 2);
  EXPECT_EQ(counters.copied_bytes, 2 * kPieces * kBytes);
  rig.ExpectNoOffence();
}

TEST_P(Copies, WorkOfAStreamRunsInItsOrder) {
  DeviceRig rig(Options());
  std::byte* memory = rig.Device(64);
  std::byte* source = rig.Host(32, std::byte{3});
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->Fill(stream, memory, std::byte{1}, 64));
  rig.Expect(rig->CopyToDevice(stream, memory, source, 32));
  rig.Expect(rig->Fill(stream, memory, std::byte{4}, 16));
  std::vector<std::byte> expected(64, std::byte{1});
  std::fill_n(expected.begin(), 32, std::byte{3});
  std::fill_n(expected.begin(), 16, std::byte{4});
  EXPECT_EQ(rig.ReadBack(stream, memory, 64), expected);
}

TEST_P(Copies, KernelsRunAsTheirTwins) {
  DeviceRig rig(Options());
  std::byte* memory = rig.Device(512);
  std::byte* source = rig.Host(24, std::byte{1});
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->CopyToDevice(stream, memory, source, 24));
  auto* output = reinterpret_cast<std::uint64_t*>(memory + 256);
  rig.Expect(rig->Launch(stream, Checksum{.input = memory, .bytes = 24, .output = output}));
  std::uint64_t expected = 0;
  RunKernelOnHost(Checksum{.input = source, .bytes = 24, .output = &expected});
  std::uint64_t found = 0;
  std::memcpy(&found, rig.ReadBack(stream, memory + 256, sizeof found).data(), sizeof found);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(rig->Counters().launches, 1U);
  rig.ExpectNoOffence();
}

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

TEST_P(Copies, WhatIsEnqueuedRunsWhenItsStreamIsDestroyed) {
  DeviceRig rig(Options());
  std::byte* memory = rig.Device(16);
  std::byte* source = rig.Host(16, std::byte{8});
  const DeviceStream stream = rig.Stream();
  const DeviceEvent event = rig.Event();
  rig.Expect(rig->Busy(stream, 2'000'000));
  rig.Expect(rig->CopyToDevice(stream, memory, source, 16));
  rig.Expect(rig->Record(event, stream));
  rig.Expect(rig->DestroyStream(stream));
  rig.Await(event);
  EXPECT_EQ(rig.ReadBack(rig.Stream(), memory, 16), std::vector(16, std::byte{8}));
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

INSTANTIATE_TEST_SUITE_P(Executors, Copies, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Simulated" : "Threaded";
});

}  // namespace
}  // namespace ringfeed
