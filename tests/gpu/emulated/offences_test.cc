#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

constexpr std::size_t kBytes = 1'024;

/// On both clocks, two devices.
class Offences : public testing::TestWithParam<bool> {
 protected:
  static EmulatedOptions Options() {
    EmulatedOptions options = GetParam() ? Simulated() : Threaded();
    options.devices.resize(2);
    return options;
  }
  static void ExpectRefused(const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  }

  DeviceRig rig_{Options()};
  DeviceStream stream_ = rig_.Stream();
  std::byte* slab_ = rig_.Host(kBytes);
  std::byte* slot_ = rig_.Device(kBytes);
};

TEST_P(Offences, CopyFromUnregisteredMemoryIsOne) {
  rig_.Expect(rig_->CopyToDevice(stream_, slot_, rig_.Pageable(kBytes), kBytes));
  EXPECT_EQ(rig_.Rules(), Rules{"unregistered source"});
}

TEST_P(Offences, CopyFromMemoryThatIsRegisteredNoMoreIsOne) {
  rig_.Expect(rig_->UnregisterHost(slab_));
  rig_.Expect(rig_->CopyToDevice(stream_, slot_, slab_, kBytes));
  EXPECT_EQ(rig_.Rules(), Rules{"unregistered source"});
}

TEST_P(Offences, CopyAcrossTheEndOfARegistrationIsOne) {
  std::byte* memory = rig_.Pageable(2 * kBytes);
  rig_.Expect(rig_->RegisterHost(memory, kBytes));
  ExpectRefused(rig_->CopyToDevice(stream_, slot_, memory + kBytes / 2, kBytes));
  EXPECT_EQ(rig_.Rules(), Rules{"source across registrations"});
}

TEST_P(Offences, CopyBackAcrossTheEndOfARegistrationIsOne) {
  std::byte* memory = rig_.Pageable(2 * kBytes);
  rig_.Expect(rig_->RegisterHost(memory, kBytes));
  ExpectRefused(rig_->CopyToHost(stream_, memory + kBytes / 2, slot_, kBytes));
  EXPECT_EQ(rig_.Rules(), Rules{"target across registrations"});
}

TEST_P(Offences, CopyFromNowhereIsOne) {
  ExpectRefused(rig_->CopyToDevice(stream_, slot_, nullptr, kBytes));
  ExpectRefused(rig_->CopyToHost(stream_, nullptr, slot_, kBytes));
  EXPECT_EQ(rig_.Rules(), (Rules{"null memory", "null memory"}));
}

TEST_P(Offences, EveryUseOfTheNullStreamIsOne) {
  const DeviceEvent event = rig_.Event();
  ExpectRefused(rig_->Record(event, {}));
  ExpectRefused(rig_->StreamWait({}, event));
  ExpectRefused(rig_->CopyToDevice({}, slot_, slab_, kBytes));
  ExpectRefused(rig_->CopyBatchToDevice({}, {}));
  ExpectRefused(rig_->CopyToHost({}, slab_, slot_, kBytes));
  ExpectRefused(rig_->Fill({}, slot_, {}, kBytes));
  ExpectRefused(rig_->Launch({}, Checksum{}));
  ExpectRefused(rig_->LaunchHost({}, [] {}, {}));
  ExpectRefused(rig_->Busy({}, 1));
  ExpectRefused(rig_->SyncStream({}));
  ExpectRefused(rig_->DestroyStream({}));
  EXPECT_EQ(rig_.Rules(), Rules(11, "null stream"));
}

TEST_P(Offences, UseOfADestroyedStreamIsOne) {
  rig_.Expect(rig_->DestroyStream(stream_));
  ExpectRefused(rig_->Fill(stream_, slot_, {}, kBytes));
  ExpectRefused(rig_->DestroyStream(stream_));
  ExpectRefused(rig_->SyncStream(stream_));
  EXPECT_EQ(rig_.Rules(), Rules(3, "unknown stream"));
}

TEST_P(Offences, UseOfADestroyedEventIsOne) {
  const DeviceEvent event = rig_.Event();
  rig_.Expect(rig_->DestroyEvent(event));
  bool done = false;
  ExpectRefused(rig_->Record(event, stream_));
  ExpectRefused(rig_->StreamWait(stream_, event));
  ExpectRefused(rig_->Query(event, &done));
  ExpectRefused(rig_->SyncEvent(event));
  ExpectRefused(rig_->DestroyEvent(event));
  EXPECT_EQ(rig_.Rules(), Rules(5, "unknown event"));
}

TEST_P(Offences, HandlesOfOthersAreRecognised) {
  DeviceRig other(Options());
  int mine = 0;
  ExpectRefused(rig_->Fill(other.Stream(), slot_, {}, kBytes));
  ExpectRefused(rig_->Fill({&mine}, slot_, {}, kBytes));
  ExpectRefused(rig_->Fill({rig_.Event().handle}, slot_, {}, kBytes));
  bool done = false;
  ExpectRefused(rig_->Query({stream_.handle}, &done));
  ExpectRefused(rig_->Query({}, &done));
  EXPECT_EQ(rig_.Rules(), (Rules{"unknown stream", "unknown stream", "unknown stream",
                                 "unknown event", "unknown event"}));
}

TEST_P(Offences, AnEventOfAnotherDeviceIsOne) {
  ExpectRefused(rig_->Record(rig_.Event(1), stream_));
  EXPECT_EQ(rig_.Rules(), Rules{"wrong device"});
}

TEST_P(Offences, WorkOfADeviceThatIsNotBoundIsOne) {
  auto* output = reinterpret_cast<std::uint64_t*>(slot_ + 512);
  const Checksum kernel{slot_, 512, output};
  rig_.Expect(rig_->BindThread(1));
  ExpectRefused(rig_->Launch(stream_, kernel));
  ExpectRefused(rig_->Busy(stream_, 1));
  std::thread([&] { ExpectRefused(rig_->LaunchHost(stream_, [] {}, {})); }).join();
  EXPECT_EQ(rig_.Rules(), Rules(3, "wrong device"));
  rig_.Expect(rig_->BindThread(0));
  rig_.Expect(rig_->Launch(stream_, kernel));
  rig_.Expect(rig_->SyncStream(stream_));
}

TEST_P(Offences, MemoryOutsideOfAllocationsIsOne) {
  std::byte* other = rig_.Device(kBytes, 1);
  const std::array<MemoryAccess, 1> beyond = {MemoryAccess{slot_ + 1, kBytes, false}};
  auto* output = reinterpret_cast<std::uint64_t*>(slab_);
  ExpectRefused(rig_->CopyToDevice(stream_, slot_ + 1, slab_, kBytes));
  ExpectRefused(rig_->CopyToDevice(stream_, slab_ + 8, slab_, 8));
  ExpectRefused(rig_->CopyToDevice(stream_, other, slab_, 8));
  ExpectRefused(rig_->CopyToHost(stream_, slab_, slot_ + kBytes, 1));
  ExpectRefused(rig_->Fill(stream_, slot_ - 1, {}, 2));
  ExpectRefused(rig_->Launch(stream_, Checksum{slot_, 8, output}));
  ExpectRefused(rig_->LaunchHost(
      stream_, [] {}, beyond));
  EXPECT_EQ(rig_.Rules(), Rules(7, "outside of an allocation"));
}

TEST_P(Offences, MemoryThatWasFreedIsOutside) {
  rig_.Expect(rig_->FreeDevice(0, slot_));
  ExpectRefused(rig_->Fill(stream_, slot_, {}, 1));
  EXPECT_EQ(rig_.Rules(), Rules{"outside of an allocation"});
}

TEST_P(Offences, TheHostMustNotTouchDeviceMemory) {
  ExpectRefused(rig_->CopyToDevice(stream_, slot_, slot_ + 512, 8));
  ExpectRefused(rig_->CopyToHost(stream_, slot_, slot_ + 512, 8));
  ExpectRefused(rig_->RegisterHost(slot_, 8));
  rig_->NoteHostRead(slot_, 1, "peek");
  EXPECT_EQ(rig_.Rules(), Rules(4, "device memory as host memory"));
}

TEST_P(Offences, ASyncInTheHotPathIsOne) {
  rig_->SetHotPath(true);
  const DeviceEvent event = rig_.Event();
  rig_.Expect(rig_->SyncStream(stream_));
  rig_.Expect(rig_->SyncEvent(event));
  rig_->SetHotPath(false);
  rig_.Expect(rig_->SyncStream(stream_));
  EXPECT_EQ(rig_.Rules(), Rules(2, "sync in the hot path"));
}

TEST_P(Offences, TheHotPathIsTheCallers) {
  rig_->SetHotPath(true);
  if (rig_->simulated()) {
    rig_->SetActor(1);
    rig_.Expect(rig_->SyncStream(stream_));
  } else {
    std::thread([&] { rig_.Expect(rig_->SyncStream(stream_)); }).join();
  }
  rig_.ExpectNoOffence();
}

TEST_P(Offences, MakingAndGivingBackInSteadyStateIs) {
  rig_->SetSteadyState(true);
  std::byte* memory = rig_.Device(8);
  rig_.Expect(rig_->FreeDevice(0, memory));
  std::byte* host = rig_.Host(8);
  rig_.Expect(rig_->UnregisterHost(host));
  rig_.Expect(rig_->DestroyStream(rig_.Stream()));
  rig_.Expect(rig_->DestroyEvent(rig_.Event()));
  EXPECT_EQ(rig_.Rules(), Rules(8, "allocation in steady state"));
  rig_->SetSteadyState(false);
  rig_.Event();
  EXPECT_EQ(rig_.Rules().size(), 8U);
}

TEST_P(Offences, EventsOfACapturedStreamAre) {
  const DeviceEvent event = rig_.Event();
  EXPECT_FALSE(rig_->IsCapturing(stream_));
  rig_->SetCapture(stream_, true);
  EXPECT_TRUE(rig_->IsCapturing(stream_));
  ExpectRefused(rig_->Record(event, stream_));
  ExpectRefused(rig_->StreamWait(stream_, event));
  rig_.Expect(rig_->Record(event, rig_.Stream()));
  rig_->SetCapture(stream_, false);
  rig_.Expect(rig_->StreamWait(stream_, event));
  EXPECT_EQ(rig_.Rules(), Rules(2, "captured stream"));
}

TEST_P(Offences, RegistrationsMustNotOverlap) {
  ExpectRefused(rig_->RegisterHost(slab_ + kBytes - 1, 1));
  ExpectRefused(rig_->RegisterHost(slab_, kBytes));
  EXPECT_EQ(rig_.Rules(), Rules(2, "overlapping registration"));
}

TEST_P(Offences, WhatWasNeverMadeCannotBeGivenBack) {
  ExpectRefused(rig_->UnregisterHost(slab_ + 1));
  ExpectRefused(rig_->FreeDevice(0, slot_ + 1));
  ExpectRefused(rig_->FreeDevice(1, slot_));
  EXPECT_EQ(rig_.Rules(),
            (Rules{"unknown registration", "unknown allocation", "unknown allocation"}));
}

TEST_P(Offences, GivingBackMemoryInFlightIsOne) {
  const DeviceEvent event = rig_.Event();
  rig_.Hold(stream_);
  rig_.Expect(rig_->CopyToDevice(stream_, slot_, slab_, kBytes));
  rig_.Expect(rig_->Record(event, stream_));
  // It is let go while the host waits for the device.
  std::thread opener;
  if (!rig_->simulated()) {
    opener = std::thread([&] {
      while (rig_.Rules().empty()) std::this_thread::yield();
      rig_.LetGo();
    });
  }
  rig_.Expect(rig_->UnregisterHost(slab_));
  if (opener.joinable()) opener.join();
  EXPECT_TRUE(rig_.Done(event));
  EXPECT_EQ(rig_.Rules(), Rules{"given back in flight"});
}

/// Lets a stream go on after a while, so that whoever waits for it fails and does not hang.
class LateOpener {
 public:
  explicit LateOpener(DeviceRig* rig)
      : thread_([rig](const std::stop_token& stop) {
          for (int i = 0; i < 5'000 && !stop.stop_requested(); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          rig->LetGo();
        }) {}

 private:
  std::jthread thread_;
};

TEST_P(Offences, FreeingMemoryInFlightIsOneAndDoesNotWait) {
  const DeviceEvent event = rig_.Event();
  std::byte* other = rig_.Device(kBytes);
  {
    const LateOpener opener(&rig_);
    rig_.Hold(stream_);
    rig_.Expect(rig_->Fill(stream_, slot_, std::byte{1}, kBytes));
    rig_.Expect(rig_->Fill(stream_, other, std::byte{2}, kBytes));
    rig_.Expect(rig_->Record(event, stream_));
    rig_.Expect(rig_->FreeDevice(0, slot_));
    EXPECT_FALSE(rig_.Done(event));
    const std::vector<Offence> offences = rig_->offences();
    ASSERT_EQ(offences.size(), 1U);
    EXPECT_EQ(offences[0].rule, "given back in flight");
    EXPECT_EQ(offences[0].first, "FreeDevice, actor 0, 1024 bytes at allocation 0 of device 0 + 0");
    EXPECT_EQ(offences[0].second,
              "fill on device 0, stream 0, 1024 bytes at allocation 0 of device 0 + 0");
    // It is nobody's any more, whatever still writes there.
    ExpectRefused(rig_->Fill(stream_, slot_, {}, kBytes));
    EXPECT_EQ(rig_.Rules(), (Rules{"given back in flight", "outside of an allocation"}));
  }
  rig_.Await(event);
  EXPECT_EQ(rig_.ReadBack(stream_, other, kBytes), std::vector(kBytes, std::byte{2}));
  EXPECT_EQ(rig_->Leaks().allocations, 1U);
}

TEST_P(Offences, FreeingWaitsForNothing) {
  const DeviceEvent event = rig_.Event();
  std::byte* other = rig_.Device(kBytes);
  {
    const LateOpener opener(&rig_);
    rig_.Hold(stream_);
    rig_.Expect(rig_->Fill(stream_, other, {}, kBytes));
    rig_.Expect(rig_->Record(event, stream_));
    rig_.Expect(rig_->FreeDevice(0, slot_));
    EXPECT_FALSE(rig_.Done(event));
  }
  rig_.Await(event);
  rig_.ExpectNoOffence();
}

// Much more than what is kept of memory that was freed in order.
TEST_P(Offences, WorkInFlightNeverWritesToMemoryOfOthers) {
  constexpr std::size_t kLarge = std::size_t{4} << 20;
  const DeviceEvent event = rig_.Event();
  {
    const LateOpener opener(&rig_);
    rig_.Hold(stream_);
    std::vector<std::byte*> freed;
    for (int i = 0; i < 8; ++i) {
      freed.push_back(rig_.Device(kLarge));
      rig_.Expect(rig_->Fill(stream_, freed.back(), std::byte{1}, kLarge));
    }
    rig_.Expect(rig_->Record(event, stream_));
    for (std::byte* memory : freed) rig_.Expect(rig_->FreeDevice(0, memory));
    EXPECT_FALSE(rig_.Done(event));
  }
  rig_.Await(event);
  EXPECT_EQ(rig_.Rules(), Rules(8, "given back in flight"));
  EXPECT_EQ(rig_->Leaks().allocations, 1U);
}

TEST_P(Offences, GivingBackMemoryBehindItsCopyIsNone) {
  const DeviceEvent event = rig_.Event();
  rig_.Expect(rig_->CopyToDevice(stream_, slot_, slab_, kBytes));
  rig_.Expect(rig_->Record(event, stream_));
  rig_.Await(event);
  rig_.Expect(rig_->UnregisterHost(slab_));
  rig_.Expect(rig_->FreeDevice(0, slot_));
  rig_.ExpectNoOffence();
}

TEST_P(Offences, AKernelThatCannotWorkIsRefused) {
  ExpectRefused(rig_->Launch(stream_, Checksum{slot_, 8, nullptr}));
  ExpectRefused(rig_->Busy(stream_, -1));
  ExpectRefused(rig_->LaunchHost(stream_, nullptr, {}));
  DeviceInfo info;
  ExpectRefused(rig_->Info(2, &info));
  ExpectRefused(rig_->BindThread(-1));
  std::byte* memory = nullptr;
  ExpectRefused(rig_->AllocDevice(0, 0, &memory));
}

TEST_P(Offences, RegistrationsOfOneProcessAreForAllButEndByWhoMadeThem) {
  EmulatedOptions options = Options();
  options.shared_registrations = true;
  DeviceRig one(options);
  DeviceRig other(options);
  EXPECT_EQ(one->Registrations(), other->Registrations());
  EXPECT_NE(one->Registrations(), rig_->Registrations());
  std::byte* slab = one.Host(kBytes);
  ExpectRefused(other->RegisterHost(slab, kBytes));
  ExpectRefused(other->UnregisterHost(slab));
  EXPECT_EQ(other.Rules(), (Rules{"overlapping registration", "unknown registration"}));
  const DeviceStream stream = other.Stream();
  std::byte* slot = other.Device(kBytes);
  other.Expect(other->CopyToDevice(stream, slot, slab, kBytes));
  other.Expect(other->SyncStream(stream));
  EXPECT_EQ(other->offences().size(), 2U);
  EXPECT_EQ(one->Leaks().registrations, 1U);
  EXPECT_EQ(other->Leaks().registrations, 0U);
  rig_.Expect(rig_->RegisterHost(slab, kBytes));  // what is not of that process is apart
  rig_.Expect(rig_->UnregisterHost(slab));
  one.Expect(one->UnregisterHost(slab));
  other.Expect(other->CopyToDevice(stream, slot, slab, kBytes));
  other.Expect(other->SyncStream(stream));
  EXPECT_EQ(other->offences().back().rule, "unregistered source");
  one.ExpectNoOffence();
}

INSTANTIATE_TEST_SUITE_P(Clocks, Offences, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Simulated" : "Threaded";
});

TEST(SourceChange, BehindTheEnqueueIsAnOffence) {
  for (const auto policy : {SchedulePolicy::kTimed, SchedulePolicy::kLazy}) {
    DeviceRig rig(Simulated(policy));
    std::byte* slab = rig.Host(kBytes);
    const DeviceStream stream = rig.Stream();
    rig.Expect(rig->CopyToDevice(stream, rig.Device(kBytes), slab, kBytes));
    slab[kBytes - 1] = std::byte{1};  // nobody was told
    rig->Drain();
    EXPECT_EQ(rig.Rules(), Rules{"source changed under a copy"});
  }
}

TEST(SourceChange, BetweenThePiecesOfACopyIsAnOffence) {
  EmulatedOptions options = Simulated(SchedulePolicy::kLazy);
  options.split_bytes = 16;
  DeviceRig rig(options);
  std::byte* slab = rig.Host(kBytes);
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->CopyToDevice(stream, rig.Device(kBytes), slab, kBytes));
  rig->Idle(rig->NowNanos() + 1);
  slab[0] = std::byte{1};
  rig->Drain();
  EXPECT_EQ(rig.Rules(), Rules{"source changed under a copy"});
}

TEST(SourceChange, ByEarlierWorkOfTheStreamIsNone) {
  DeviceRig rig(Simulated());
  std::byte* slab = rig.Host(kBytes);
  std::byte* memory = rig.Device(2 * kBytes);
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->Fill(stream, memory, std::byte{4}, kBytes));
  rig.Expect(rig->CopyToHost(stream, slab, memory, kBytes));
  rig.Expect(rig->CopyToDevice(stream, memory + kBytes, slab, kBytes));
  EXPECT_EQ(rig.ReadBack(stream, memory + kBytes, kBytes), std::vector(kBytes, std::byte{4}));
  rig.ExpectNoOffence();
}

}  // namespace
}  // namespace ringfeed
