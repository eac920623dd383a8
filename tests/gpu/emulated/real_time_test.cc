#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

// Who asks wakes: streams with nothing but records and waits to do may sleep until then. Not woken,
// each of them would sleep a second in every step.
TEST(RealTime, RecordsThatOnlyOtherStreamsAskForAreDoneInTime) {
  DeviceRig rig(Threaded());
  const DeviceStream first = rig.Stream();
  const DeviceStream second = rig.Stream();
  const DeviceStream third = rig.Stream();
  const DeviceEvent recorded = rig.Event();
  const DeviceEvent passed_on = rig.Event();
  const DeviceEvent done = rig.Event();
  std::atomic<int> ran = 0;
  constexpr int kSteps = 500;
  for (int step = 0; step < kSteps; ++step) {
    rig.Expect(rig->Record(recorded, first));
    rig.Expect(rig->StreamWait(second, recorded));
    rig.Expect(rig->Record(passed_on, second));
    rig.Expect(rig->StreamWait(third, passed_on));
    rig.Expect(rig->LaunchHost(third, [&ran] { ++ran; }, {}));
    rig.Expect(rig->Record(done, third));
    rig.Await(done);
    EXPECT_EQ(ran, step + 1);
  }
  rig.ExpectNoOffence();
}

TEST(RealTime, AFeedOfTwoStreamsIsFreeOfRaces) {
  DeviceRig rig(Threaded());
  const DeviceStream copies = rig.Stream();
  const DeviceStream compute = rig.Stream();
  constexpr std::size_t kBytes = 4'096;
  constexpr std::size_t kSlots = 3;
  std::vector<std::byte*> slabs;
  std::vector<std::byte*> slots;
  std::vector<DeviceEvent> copied;
  std::vector<DeviceEvent> released;
  for (std::size_t i = 0; i < kSlots; ++i) {
    slabs.push_back(rig.Host(kBytes));
    slots.push_back(rig.Device(kBytes));
    copied.push_back(rig.Event());
    released.push_back(rig.Event());
  }
  std::size_t right = 0;
  constexpr std::size_t kSteps = 300;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const std::size_t i = step % kSlots;
    rig.Await(copied[i]);
    std::fill_n(slabs[i], kBytes, static_cast<std::byte>(step));
    rig.Expect(rig->StreamWait(copies, released[i]));
    rig.Expect(rig->CopyToDevice(copies, slots[i], slabs[i], kBytes));
    rig.Expect(rig->Record(copied[i], copies));
    rig.Expect(rig->StreamWait(compute, copied[i]));
    rig.Expect(rig->LaunchHost(compute,
                               [&right, slot = slots[i], step] {
                                 if (slot[0] == static_cast<std::byte>(step) &&
                                     slot[kBytes - 1] == slot[0])
                                   ++right;
                               },
                               {}));
    rig.Expect(rig->Record(released[i], compute));
  }
  rig.Expect(rig->SyncStream(compute));
  EXPECT_EQ(right, kSteps);
  rig.ExpectNoOffence();
}

TEST(RealTime, StreamsComeAndGo) {
  DeviceRig rig(Threaded());
  std::byte* memory = rig.Device(16);
  for (int i = 0; i < 200; ++i) {
    const DeviceStream stream = rig.Stream();
    rig.Expect(rig->Fill(stream, memory, static_cast<std::byte>(i), 16));
    rig.Expect(rig->SyncStream(stream));
    rig.Expect(rig->DestroyStream(stream));
  }
  EXPECT_EQ(rig->Leaks().streams, 0U);
  rig.Expect(rig->FreeDevice(0, memory));
}

TEST(RealTime, ALossWhileOthersWorkHangsNobody) {
  for (std::uint64_t nth = 1; nth < 200; nth += 13) {
    EmulatedOptions options = Threaded();
    options.devices.resize(2);
    options.devices[0].copy_latency_ns = 1'000;
    options.faults = {{DeviceCall::kCopyToDevice, nth, FaultEffect::kLater}};
    DeviceRig rig(options);
    std::byte* slab = rig.Host(1'024);
    std::byte* slot = rig.Device(1'024);
    std::vector<std::thread> hosts;
    const std::vector<DeviceStream> streams = {rig.Stream(), rig.Stream(), rig.Stream()};
    for (const DeviceStream stream : streams) {
      hosts.emplace_back([&, stream] {
        for (Status status; status.ok();) {
          status = rig->CopyToDevice(stream, slot, slab, 0);
          if (status.ok()) status = rig->SyncStream(stream);
        }
      });
    }
    for (std::thread& host : hosts) host.join();
    EXPECT_EQ(rig->DeviceStatus(0).code(), StatusCode::kDeviceLost);
    EXPECT_EQ(rig->FreeDevice(0, slot).code(), StatusCode::kDeviceLost);
    std::fill_n(slab, 1'024, std::byte{1});
  }
}

TEST(RealTime, CopiesAndComputingOverlapByTheDevicesOwnTimes) {
  EmulatedOptions options = Threaded();
  options.devices[0].copy_latency_ns = 30'000'000;
  DeviceRig rig(options);
  const DeviceStream copies = rig.Stream();
  const DeviceStream compute = rig.Stream();
  std::vector<DeviceEvent> events;
  for (int i = 0; i < 4; ++i) events.push_back(rig.Event(0, EventKind::kTimed));
  std::byte* slab = rig.Host(8);
  std::byte* slot = rig.Device(8);
  rig.Hold(compute);
  const DeviceEvent start = rig.Event(0);
  rig.Expect(rig->Record(start, compute));
  rig.Expect(rig->StreamWait(copies, start));
  rig.Expect(rig->Record(events[0], copies));
  rig.Expect(rig->CopyToDevice(copies, slot, slab, 8));
  rig.Expect(rig->Record(events[1], copies));
  rig.Expect(rig->Record(events[2], compute));
  rig.Expect(rig->Busy(compute, 30'000'000));
  rig.Expect(rig->Record(events[3], compute));
  rig.LetGo();
  rig.Expect(rig->SyncStream(copies));
  rig.Expect(rig->SyncStream(compute));
  double copy_ms = 0;
  double busy_ms = 0;
  double apart_ms = 0;
  rig.Expect(rig->Elapsed(events[0], events[1], &copy_ms));
  rig.Expect(rig->Elapsed(events[2], events[3], &busy_ms));
  rig.Expect(rig->Elapsed(events[0], events[2], &apart_ms));
  EXPECT_GE(copy_ms, 30);
  EXPECT_GE(busy_ms, 30);
  EXPECT_DOUBLE_EQ(apart_ms, 0);
}

TEST(RealTime, HighPriorityGoesFirst) {
  constexpr int kRounds = 5;
  int high_first = 0;
  for (int round = 0; round < kRounds; ++round) {
    DeviceRig rig(Threaded());
    const DeviceStream running = rig.Stream();
    const DeviceStream normal = rig.Stream();
    const DeviceStream high = rig.Stream(0, StreamPriority::kHigh);
    std::atomic<int> runs = 0;
    std::atomic<int> high_run = 0;
    rig.Hold(running);
    rig.Expect(rig->LaunchHost(normal, [&] { ++runs; }, {}));
    rig.Expect(rig->LaunchHost(high, [&] { high_run = ++runs; }, {}));
    // Until the threads of both streams wait for the engine. One of them may be late all the same.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rig.LetGo();
    rig.Expect(rig->SyncStream(normal));
    rig.Expect(rig->SyncStream(high));
    high_first += high_run == 1 ? 1 : 0;
  }
  EXPECT_GT(high_first, kRounds / 2);
}

TEST(RealTime, ASourceThatChangesUnderItsCopyIsAnOffence) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer reports the race itself: planted_race_test";
#endif
  constexpr std::int64_t kCopyNs = 500'000'000;
  EmulatedOptions options = Threaded();
  options.devices[0].copy_latency_ns = kCopyNs;
  // Where this thread got no processor until the copy was over, there was no offence: once more.
  for (bool was_in_time = false; !was_in_time;) {
    DeviceRig rig(options);
    std::byte* slab = rig.Host(8, std::byte{1});
    std::byte* slot = rig.Device(8);
    const DeviceStream stream = rig.Stream();
    const std::int64_t before_ns = rig->NowNanos();
    rig.Expect(rig->CopyToDevice(stream, slot, slab, 8));
    while (std::atomic_ref(slot[7]).load() != std::byte{1}) std::this_thread::yield();
    std::atomic_ref(slab[7]).store(std::byte{2});
    was_in_time = rig->NowNanos() - before_ns < kCopyNs;
    rig.Expect(rig->SyncStream(stream));
    if (was_in_time) {
      EXPECT_EQ(rig.Rules(), Rules{"source changed under a copy"});
    }
  }
}

}  // namespace
}  // namespace ringfeed
