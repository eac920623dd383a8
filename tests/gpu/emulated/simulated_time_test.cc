#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kLatency = 10'000;
constexpr std::size_t kBytes = 1'200'000;
constexpr std::int64_t kLink = 100'000;  // kBytes at 12e9 a second
constexpr std::int64_t kFar = 1'000'000'000;

class SimulatedTime : public testing::Test {
 protected:
  static EmulatedOptions Options() {
    EmulatedOptions options = Simulated();
    options.devices.resize(2);
    options.devices[1].link_bytes_per_s = 24e9;
    options.devices[1].speed = 4;
    return options;
  }

  void Copy(DeviceStream stream, int device = 0) {
    rig_.Expect(rig_->CopyToDevice(stream, rig_.Device(kBytes, device), rig_.Host(kBytes), kBytes));
  }

  DeviceRig rig_{Options()};
};

TEST_F(SimulatedTime, StartsAtZeroAndStandsStill) {
  EXPECT_EQ(rig_->NowNanos(), 0);
  Copy(rig_.Stream());
  EXPECT_EQ(rig_->NowNanos(), 0);
}

TEST_F(SimulatedTime, ACopyTakesItsLatencyAndTheLink) {
  const DeviceStream stream = rig_.Stream();
  const DeviceEvent event = rig_.Event();
  Copy(stream);
  rig_.Expect(rig_->Record(event, stream));
  rig_->Idle(kFar);
  EXPECT_EQ(rig_->NowNanos(), kLatency + kLink);
  EXPECT_TRUE(rig_.Done(event));
}

TEST_F(SimulatedTime, QueryLetsNoTimePass) {
  const DeviceStream stream = rig_.Stream();
  const DeviceEvent event = rig_.Event();
  Copy(stream);
  rig_.Expect(rig_->Record(event, stream));
  for (int i = 0; i < 1'000; ++i) EXPECT_FALSE(rig_.Done(event));
  EXPECT_EQ(rig_->NowNanos(), 0);
}

TEST_F(SimulatedTime, IdleStopsAtItsLimit) {
  const DeviceStream stream = rig_.Stream();
  const DeviceEvent event = rig_.Event();
  Copy(stream);
  rig_.Expect(rig_->Record(event, stream));
  rig_->Idle(kLatency);
  EXPECT_EQ(rig_->NowNanos(), kLatency);
  EXPECT_FALSE(rig_.Done(event));
  rig_->Idle(0);
  EXPECT_EQ(rig_->NowNanos(), kLatency);
}

TEST_F(SimulatedTime, IdleWithNothingToDoGoesToItsLimit) {
  rig_->Idle(12'345);
  EXPECT_EQ(rig_->NowNanos(), 12'345);
}

TEST_F(SimulatedTime, TwoCopiesToOneDeviceFollowEachOther) {
  const DeviceStream first = rig_.Stream();
  const DeviceStream second = rig_.Stream();
  Copy(first);
  Copy(second);
  rig_.Expect(rig_->SyncStream(first));
  EXPECT_EQ(rig_->NowNanos(), kLatency + kLink);
  rig_.Expect(rig_->SyncStream(second));
  EXPECT_EQ(rig_->NowNanos(), 2 * (kLatency + kLink));
}

TEST_F(SimulatedTime, CopiesToTwoDevicesOverlap) {
  const DeviceStream first = rig_.Stream(0);
  const DeviceStream second = rig_.Stream(1);
  Copy(first, 0);
  Copy(second, 1);
  rig_.Expect(rig_->SyncStream(second));
  EXPECT_EQ(rig_->NowNanos(), kLatency + kLink / 2);
  rig_.Expect(rig_->SyncStream(first));
  EXPECT_EQ(rig_->NowNanos(), kLatency + kLink);
}

TEST_F(SimulatedTime, CopiesAndComputingOverlap) {
  const DeviceStream copies = rig_.Stream();
  const DeviceStream compute = rig_.Stream();
  Copy(copies);
  rig_.Expect(rig_->Busy(compute, 150'000));
  rig_.Expect(rig_->SyncStream(copies));
  EXPECT_EQ(rig_->NowNanos(), kLatency + kLink);
  rig_.Expect(rig_->SyncStream(compute));
  EXPECT_EQ(rig_->NowNanos(), 150'000);
}

TEST_F(SimulatedTime, CopiesOfBothDirectionsOverlap) {
  const DeviceStream there = rig_.Stream();
  const DeviceStream back = rig_.Stream();
  Copy(there);
  rig_.Expect(rig_->CopyToHost(back, rig_.Host(kBytes), rig_.Device(kBytes), kBytes));
  rig_.Expect(rig_->SyncStream(there));
  rig_.Expect(rig_->SyncStream(back));
  EXPECT_EQ(rig_->NowNanos(), kLatency + kLink);
}

TEST_F(SimulatedTime, BusyTakesItsTimeOverTheSpeed) {
  rig_.Expect(rig_->BindThread(1));
  const DeviceStream stream = rig_.Stream(1);
  rig_.Expect(rig_->Busy(stream, 100'000));
  rig_.Expect(rig_->SyncStream(stream));
  EXPECT_EQ(rig_->NowNanos(), 25'000);
}

TEST_F(SimulatedTime, TwoStreamsShareTheComputePart) {
  const DeviceStream first = rig_.Stream();
  const DeviceStream second = rig_.Stream();
  rig_.Expect(rig_->Busy(first, 100));
  rig_.Expect(rig_->Busy(second, 100));
  rig_.Expect(rig_->SyncStream(second));
  EXPECT_EQ(rig_->NowNanos(), 200);
}

TEST_F(SimulatedTime, HighPriorityGoesFirst) {
  const DeviceStream running = rig_.Stream();
  const DeviceStream normal = rig_.Stream();
  const DeviceStream high = rig_.Stream(0, StreamPriority::kHigh);
  rig_.Expect(rig_->Busy(running, 100));
  rig_.Expect(rig_->Busy(normal, 100));
  rig_.Expect(rig_->Busy(high, 100));
  rig_.Expect(rig_->SyncStream(high));
  EXPECT_EQ(rig_->NowNanos(), 200);
  rig_.Expect(rig_->SyncStream(normal));
  EXPECT_EQ(rig_->NowNanos(), 300);
}

TEST_F(SimulatedTime, KernelsTakeTheirBytesAndALaunch) {
  const DeviceStream stream = rig_.Stream();
  std::byte* memory = rig_.Device(2'000'000);
  rig_.Expect(rig_->Fill(stream, memory, std::byte{1}, 2'000'000));
  rig_.Expect(rig_->SyncStream(stream));
  EXPECT_EQ(rig_->NowNanos(), 3'000 + 10'000);
  auto* output = reinterpret_cast<std::uint64_t*>(rig_.Device(8));
  rig_.Expect(rig_->Launch(stream, Checksum{memory, 1'999'992, output}));
  rig_.Expect(rig_->SyncStream(stream));
  EXPECT_EQ(rig_->NowNanos(), 2 * (3'000 + 10'000));
}

TEST_F(SimulatedTime, WorkStartsWhenTheEventThatItWaitsForIsDone) {
  const DeviceStream copies = rig_.Stream();
  const DeviceStream compute = rig_.Stream();
  const DeviceEvent copied = rig_.Event();
  Copy(copies);
  rig_.Expect(rig_->Record(copied, copies));
  rig_.Expect(rig_->StreamWait(compute, copied));
  rig_.Expect(rig_->Busy(compute, 1'000));
  rig_.Expect(rig_->SyncStream(compute));
  EXPECT_EQ(rig_->NowNanos(), kLatency + kLink + 1'000);
}

TEST_F(SimulatedTime, ASplitCopyArrivesPieceByPiece) {
  EmulatedOptions options = Options();
  options.split_bytes = kBytes / 4;
  DeviceRig rig(options);
  std::byte* memory = rig.Device(kBytes);
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->CopyToDevice(stream, memory, rig.Host(kBytes, std::byte{1}), kBytes));
  for (std::size_t piece = 1; piece <= 4; ++piece) {
    rig->Idle(kFar);
    EXPECT_EQ(rig->NowNanos(), kLatency + static_cast<std::int64_t>(piece) * kLink / 4);
    EXPECT_EQ(memory[piece * kBytes / 4 - 1], std::byte{1});
    if (piece < 4) {
      EXPECT_EQ(memory[piece * kBytes / 4], std::byte{0xEE});
    }
  }
}

TEST_F(SimulatedTime, ACopyThatIsWholeArrivesAtItsEnd) {
  std::byte* memory = rig_.Device(kBytes);
  const DeviceStream stream = rig_.Stream();
  rig_.Expect(rig_->CopyToDevice(stream, memory, rig_.Host(kBytes, std::byte{1}), kBytes));
  rig_->Idle(kLatency + kLink - 1);
  EXPECT_EQ(memory[0], std::byte{0xEE});
  rig_->Idle(kLatency + kLink);
  EXPECT_EQ(memory[kBytes - 1], std::byte{1});
}

TEST_F(SimulatedTime, AStarvedStreamRunsWhenNothingElseCan) {
  EmulatedOptions options = Options();
  options.starved_stream = 0;
  DeviceRig rig(options);
  const DeviceStream starved = rig.Stream();
  const DeviceStream other = rig.Stream();
  const DeviceEvent event = rig.Event(0, EventKind::kTimed);
  rig.Expect(rig->Busy(other, 500));
  rig.Expect(rig->CopyToDevice(starved, rig.Device(kBytes), rig.Host(kBytes), kBytes));
  rig.Expect(rig->Record(event, starved));
  rig.Expect(rig->Busy(other, 500));
  rig.Expect(rig->SyncEvent(event));
  EXPECT_EQ(rig->NowNanos(), 1'000 + kLatency + kLink);
}

}  // namespace
}  // namespace ringfeed
