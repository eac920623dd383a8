#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

constexpr std::size_t kBytes = 256;

/// On both clocks, two devices.
class Faults : public testing::TestWithParam<bool> {
 protected:
  static EmulatedOptions Options(std::vector<DeviceFault> faults) {
    EmulatedOptions options = GetParam() ? Simulated() : Threaded();
    options.devices.resize(2);
    options.faults = std::move(faults);
    return options;
  }
};

/// One of each, to call with.
struct Things {
  explicit Things(DeviceRig& made)
      : rig(made),
        stream(rig.Stream()),
        event(rig.Event(0, EventKind::kTimed)),
        slab(rig.Host(kBytes)),
        slot(rig.Device(2 * kBytes)) {
    rig.Expect(rig->Record(event, stream));
    rig.Expect(rig->SyncStream(stream));
  }

  DeviceRig& rig;
  DeviceStream stream;
  DeviceEvent event;
  std::byte* slab;
  std::byte* slot;
};

/// A call that would succeed, on device 0.
Status Call(DeviceCall call, Things& things) {
  EmulatedDevices& devices = *things.rig.operator->();
  DeviceInfo info;
  DeviceStream stream;
  DeviceEvent event;
  std::byte* memory = nullptr;
  bool done = false;
  double milliseconds = 0;
  const CopyPiece piece{things.slot, things.slab, kBytes};
  auto* output = reinterpret_cast<std::uint64_t*>(things.slot + kBytes);
  switch (call) {
    case DeviceCall::kInfo:
      return devices.Info(0, &info);
    case DeviceCall::kBindThread:
      return devices.BindThread(0);
    case DeviceCall::kRegisterHost:
      return devices.RegisterHost(things.rig.Pageable(8), 8);
    case DeviceCall::kUnregisterHost:
      return devices.UnregisterHost(things.slab);
    case DeviceCall::kAllocDevice:
      return devices.AllocDevice(0, 8, &memory);
    case DeviceCall::kFreeDevice:
      return devices.FreeDevice(0, things.slot);
    case DeviceCall::kCreateStream:
      return devices.CreateStream(0, StreamPriority::kNormal, &stream);
    case DeviceCall::kDestroyStream:
      return devices.DestroyStream(things.stream);
    case DeviceCall::kCreateEvent:
      return devices.CreateEvent(0, EventKind::kPlain, &event);
    case DeviceCall::kDestroyEvent:
      return devices.DestroyEvent(things.event);
    case DeviceCall::kRecord:
      return devices.Record(things.event, things.stream);
    case DeviceCall::kStreamWait:
      return devices.StreamWait(things.stream, things.event);
    case DeviceCall::kQuery:
      return devices.Query(things.event, &done);
    case DeviceCall::kCopyToDevice:
      return devices.CopyToDevice(things.stream, piece.to, piece.from, piece.bytes);
    case DeviceCall::kCopyBatchToDevice:
      return devices.CopyBatchToDevice(things.stream, {&piece, 1});
    case DeviceCall::kCopyToHost:
      return devices.CopyToHost(things.stream, things.slab, things.slot, kBytes);
    case DeviceCall::kFill:
      return devices.Fill(things.stream, things.slot, std::byte{1}, kBytes);
    case DeviceCall::kLaunch:
      return devices.Launch(things.stream, Checksum{things.slot, kBytes, output});
    case DeviceCall::kBusy:
      return devices.Busy(things.stream, 1);
    case DeviceCall::kSyncEvent:
      return devices.SyncEvent(things.event);
    case DeviceCall::kSyncStream:
      return devices.SyncStream(things.stream);
    case DeviceCall::kElapsed:
      return devices.Elapsed(things.event, things.event, &milliseconds);
    case DeviceCall::kDeviceStatus:
      return devices.DeviceStatus(0);
  }
  return Status(StatusCode::kInternal, "no such call");
}

bool AsksForMore(DeviceCall call) {
  return call == DeviceCall::kRegisterHost || call == DeviceCall::kAllocDevice ||
         call == DeviceCall::kCreateStream || call == DeviceCall::kCreateEvent;
}

constexpr std::array kGivingBack = {DeviceCall::kUnregisterHost, DeviceCall::kFreeDevice,
                                    DeviceCall::kDestroyStream, DeviceCall::kDestroyEvent};

bool GivesBack(DeviceCall call) {
  return std::find(kGivingBack.begin(), kGivingBack.end(), call) != kGivingBack.end();
}

constexpr std::array kEnqueueing = {DeviceCall::kRecord,       DeviceCall::kStreamWait,
                                    DeviceCall::kCopyToDevice, DeviceCall::kCopyBatchToDevice,
                                    DeviceCall::kCopyToHost,   DeviceCall::kFill,
                                    DeviceCall::kLaunch,       DeviceCall::kBusy};

/// How often setting up the rig and the things calls it already.
std::uint64_t CallsBefore(DeviceCall call) {
  switch (call) {
    case DeviceCall::kBindThread:
    case DeviceCall::kCreateStream:
    case DeviceCall::kCreateEvent:
    case DeviceCall::kRegisterHost:
    case DeviceCall::kAllocDevice:
    case DeviceCall::kRecord:
    case DeviceCall::kSyncStream:
      return 1;
    default:
      return 0;
  }
}

TEST_P(Faults, EachCallCanFailAloneWithoutEffect) {
  for (std::size_t i = 0; i < kDeviceCalls; ++i) {
    const auto call = static_cast<DeviceCall>(i);
    if (GivesBack(call)) continue;  // AGivingBackThatFailsGivesNothingBack
    SCOPED_TRACE(std::string(DeviceCallName(call)));
    DeviceRig rig(Options({{call, CallsBefore(call) + 2, FaultEffect::kFails}}));
    Things things(rig);
    rig.Expect(Call(call, things));  // the first one does not
    const DeviceLeaks between = rig->Leaks();
    EXPECT_EQ(Call(call, things).code(),
              AsksForMore(call) ? StatusCode::kResourceExhausted : StatusCode::kIoError);
    const DeviceLeaks after = rig->Leaks();
    EXPECT_EQ(after.allocations, between.allocations);
    EXPECT_EQ(after.registrations, between.registrations);
    EXPECT_EQ(after.streams, between.streams);
    EXPECT_EQ(after.events, between.events);
    rig.Expect(rig->SyncStream(things.stream));
    rig.Expect(Call(call, things));  // nor does the third
  }
}

TEST_P(Faults, AGivingBackThatFailsGivesNothingBack) {
  for (const DeviceCall call : kGivingBack) {
    SCOPED_TRACE(std::string(DeviceCallName(call)));
    DeviceRig rig(Options({{call, 1, FaultEffect::kFails}}));
    Things things(rig);
    EXPECT_EQ(Call(call, things).code(), StatusCode::kIoError);
    const DeviceLeaks leaks = rig->Leaks();
    EXPECT_EQ(leaks.allocations + leaks.registrations + leaks.streams + leaks.events, 4U);
    rig.Expect(Call(call, things));
  }
}

TEST_P(Faults, WorkWhoseCallFailedDoesNotRun) {
  DeviceRig rig(Options({{DeviceCall::kFill, 1, FaultEffect::kFails}}));
  Things things(rig);
  EXPECT_EQ(Call(DeviceCall::kFill, things).code(), StatusCode::kIoError);
  EXPECT_EQ(rig.ReadBack(things.stream, things.slot, 1), std::vector{std::byte{0xEE}});
}

TEST_P(Faults, EachCallCanLoseTheDevice) {
  for (std::size_t i = 0; i < kDeviceCalls; ++i) {
    const auto call = static_cast<DeviceCall>(i);
    SCOPED_TRACE(std::string(DeviceCallName(call)));
    DeviceRig rig(Options({{call, CallsBefore(call) + 1, FaultEffect::kDeviceLost}}));
    Things things(rig);
    EXPECT_EQ(Call(call, things).code(), StatusCode::kDeviceLost);
    EXPECT_EQ(rig->DeviceStatus(0).code(), StatusCode::kDeviceLost);
    EXPECT_NE(rig->DeviceStatus(0).message().find(DeviceCallName(call)), std::string::npos);
    rig.Expect(rig->DeviceStatus(1));
  }
}

TEST_P(Faults, OnALostDeviceEveryCallFailsButMemoryIsGivenBack) {
  for (std::size_t i = 0; i < kDeviceCalls; ++i) {
    const auto call = static_cast<DeviceCall>(i);
    SCOPED_TRACE(std::string(DeviceCallName(call)));
    DeviceRig rig(Options({{DeviceCall::kInfo, 1, FaultEffect::kDeviceLost}}));
    Things things(rig);
    EXPECT_EQ(Call(DeviceCall::kInfo, things).code(), StatusCode::kDeviceLost);
    const bool host = call == DeviceCall::kRegisterHost || call == DeviceCall::kUnregisterHost;
    EXPECT_EQ(Call(call, things).code(), host ? StatusCode::kOk : StatusCode::kDeviceLost);
  }
}

TEST_P(Faults, WhatALostDeviceHadCanBeGivenBack) {
  DeviceRig rig(Options({{DeviceCall::kBusy, 1, FaultEffect::kDeviceLost}}));
  Things things(rig);
  rig.Hold(things.stream);
  rig.Expect(rig->CopyToDevice(things.stream, things.slot, things.slab, kBytes));
  rig.LetGo();
  EXPECT_EQ(Call(DeviceCall::kBusy, things).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(rig->FreeDevice(0, things.slot).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(rig->DestroyStream(things.stream).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(rig->DestroyEvent(things.event).code(), StatusCode::kDeviceLost);
  rig.Expect(rig->UnregisterHost(things.slab));
  EXPECT_TRUE(rig->Leaks().none());
  rig.ExpectNoOffence();
}

TEST_P(Faults, WorkOfALostDeviceTouchesNoMemory) {
  DeviceRig rig(Options({{DeviceCall::kInfo, 1, FaultEffect::kDeviceLost}}));
  Things things(rig);
  const DeviceEvent event = rig.Event();
  std::byte* back = rig.Host(kBytes);
  rig.Hold(things.stream);
  rig.Expect(rig->CopyToHost(things.stream, back, things.slot, kBytes));
  rig.Expect(rig->Record(event, things.stream));
  rig.LetGo();
  rig->Idle(rig->NowNanos() + 1);
  if (rig->simulated()) {
    EXPECT_EQ(Call(DeviceCall::kInfo, things).code(), StatusCode::kDeviceLost);
    EXPECT_EQ(back[0], std::byte{});
    rig->Drain();
    EXPECT_EQ(back[0], std::byte{});
  } else {
    // Whether it was in time or not: from here on nobody else writes there.
    EXPECT_EQ(Call(DeviceCall::kInfo, things).code(), StatusCode::kDeviceLost);
    back[0] = std::byte{0x55};
    rig->Drain();
    EXPECT_EQ(back[0], std::byte{0x55});
  }
  bool done = false;
  EXPECT_EQ(rig->Query(event, &done).code(), StatusCode::kDeviceLost);
  EXPECT_FALSE(done);
}

TEST_P(Faults, WorkThatFailsLaterLosesTheDeviceWhenItsTurnComes) {
  for (const DeviceCall call : kEnqueueing) {
    SCOPED_TRACE(std::string(DeviceCallName(call)));
    DeviceRig rig(Options({{call, CallsBefore(call) + 1, FaultEffect::kLater}}));
    Things things(rig);
    const DeviceEvent behind = rig.Event();
    rig.Hold(things.stream);
    rig.Expect(Call(call, things));
    if (call != DeviceCall::kRecord) rig.Expect(rig->Record(behind, things.stream));
    const DeviceEvent asked = call == DeviceCall::kRecord ? things.event : behind;
    rig.Expect(rig->DeviceStatus(0));
    rig.LetGo();
    Status status;
    bool done = false;
    while (status.ok() && !done) {
      status = rig->Query(asked, &done);
      rig->Idle(rig->NowNanos() + 1'000'000);
    }
    EXPECT_EQ(status.code(), StatusCode::kDeviceLost);
    EXPECT_FALSE(done);
    EXPECT_EQ(rig->DeviceStatus(0).code(), StatusCode::kDeviceLost);
  }
}

TEST_P(Faults, ASyncReturnsWhenTheDeviceIsLost) {
  DeviceRig rig(Options({{DeviceCall::kFill, 1, FaultEffect::kLater}}));
  Things things(rig);
  rig.Expect(Call(DeviceCall::kFill, things));
  EXPECT_EQ(rig->SyncStream(things.stream).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(rig->SyncEvent(things.event).code(), StatusCode::kDeviceLost);
}

TEST_P(Faults, TheFirstLossIsTheOneThatIsTold) {
  DeviceRig rig(Options({{DeviceCall::kInfo, 1, FaultEffect::kDeviceLost},
                         {DeviceCall::kFill, 1, FaultEffect::kDeviceLost}}));
  Things things(rig);
  EXPECT_EQ(Call(DeviceCall::kInfo, things).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(Call(DeviceCall::kFill, things).code(), StatusCode::kDeviceLost);
  EXPECT_NE(rig->DeviceStatus(0).message().find("Info"), std::string::npos);
}

TEST_P(Faults, AStreamThatWaitsForALostDeviceLosesItsOwn) {
  DeviceRig rig(Options({{DeviceCall::kFill, 1, FaultEffect::kLater}}));
  Things things(rig);
  const DeviceStream waiting = rig.Stream(1);
  rig.Hold(things.stream);
  rig.Expect(Call(DeviceCall::kFill, things));
  rig.Expect(rig->Record(things.event, things.stream));
  rig.Expect(rig->StreamWait(waiting, things.event));
  rig.LetGo();
  EXPECT_EQ(rig->SyncStream(waiting).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(rig->DeviceStatus(1).code(), StatusCode::kDeviceLost);
}

TEST_P(Faults, CallsAreCountedOverAllDevices) {
  DeviceRig rig(Options({{DeviceCall::kBindThread, 3, FaultEffect::kFails}}));
  rig.Expect(rig->BindThread(1));
  EXPECT_EQ(rig->BindThread(0).code(), StatusCode::kIoError);
  rig.Expect(rig->BindThread(0));
}

INSTANTIATE_TEST_SUITE_P(Clocks, Faults, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Simulated" : "Threaded";
});

}  // namespace
}  // namespace ringfeed
