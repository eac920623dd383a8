#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kFar = 1'000'000'000;

/// Three streams of four steps each, the host idling in between; which step ran when.
std::string Trace(const EmulatedOptions& options) {
  DeviceRig rig(options);
  std::string trace;
  std::vector<DeviceStream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(rig.Stream());
  for (int step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const char name = static_cast<char>('a' + i);
      rig.Expect(rig->LaunchHost(streams[i], [&trace, name] { trace += name; }, {}));
    }
    rig->Idle(rig->NowNanos() + 1'000);
    trace += " " + std::to_string(rig->NowNanos()) + " ";
  }
  rig->Drain();
  rig.ExpectNoOffence();
  return trace;
}

TEST(Schedule, EagerWorkRunsWhenItIsEnqueued) {
  DeviceRig rig(Simulated(SchedulePolicy::kEager));
  const DeviceStream stream = rig.Stream();
  const DeviceEvent event = rig.Event();
  std::byte* memory = rig.Device(16);
  rig.Expect(rig->CopyToDevice(stream, memory, rig.Host(16, std::byte{1}), 16));
  EXPECT_EQ(memory[0], std::byte{1});
  rig.Expect(rig->Record(event, stream));
  EXPECT_TRUE(rig.Done(event));
  EXPECT_EQ(rig->NowNanos(), 0);
}

TEST(Schedule, LazyWorkRunsOneByOneWhileTheHostIdles) {
  DeviceRig rig(Simulated(SchedulePolicy::kLazy));
  const DeviceStream stream = rig.Stream();
  const DeviceEvent event = rig.Event();
  std::byte* memory = rig.Device(16);
  rig.Expect(rig->CopyToDevice(stream, memory, rig.Host(16, std::byte{1}), 16));
  rig.Expect(rig->Record(event, stream));
  EXPECT_FALSE(rig.Done(event));
  EXPECT_EQ(memory[0], std::byte{0xEE});
  rig->Idle(kFar);
  EXPECT_EQ(memory[0], std::byte{1});
  EXPECT_FALSE(rig.Done(event));
  rig->Idle(kFar);
  EXPECT_TRUE(rig.Done(event));
}

TEST(Schedule, ALazySyncRunsWhatItWaitsForAlone) {
  DeviceRig rig(Simulated(SchedulePolicy::kLazy));
  const DeviceStream first = rig.Stream();
  const DeviceStream second = rig.Stream();
  const DeviceStream apart = rig.Stream();
  const DeviceEvent needed = rig.Event();
  const DeviceEvent asked = rig.Event();
  std::string trace;
  const auto step = [&](DeviceStream stream, char name) {
    rig.Expect(rig->LaunchHost(stream, [&trace, name] { trace += name; }, {}));
  };
  step(apart, 'x');
  step(first, 'a');
  rig.Expect(rig->Record(needed, first));
  step(first, 'y');
  rig.Expect(rig->StreamWait(second, needed));
  step(second, 'b');
  rig.Expect(rig->Record(asked, second));
  step(second, 'z');
  rig.Expect(rig->SyncEvent(asked));
  EXPECT_EQ(trace, "ab");
  rig->Drain();
  EXPECT_EQ(trace.size(), 5U);
}

TEST(Schedule, TheSameSeedIsTheSameRun) {
  for (const auto policy : {SchedulePolicy::kTimed, SchedulePolicy::kEager, SchedulePolicy::kLazy,
                            SchedulePolicy::kRandom, SchedulePolicy::kPriorities}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      EXPECT_EQ(Trace(Simulated(policy, seed)), Trace(Simulated(policy, seed)));
    }
  }
}

TEST(Schedule, SeedsMakeManyRuns) {
  for (const auto policy : {SchedulePolicy::kRandom, SchedulePolicy::kPriorities}) {
    std::set<std::string> traces;
    for (std::uint64_t seed = 0; seed < 50; ++seed) traces.insert(Trace(Simulated(policy, seed)));
    EXPECT_GE(traces.size(), 25U);
  }
}

TEST(Schedule, EveryStepRunsOnceUnderEverySeed) {
  for (const auto policy : {SchedulePolicy::kRandom, SchedulePolicy::kPriorities}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const std::string trace = Trace(Simulated(policy, seed));
      for (const char name : {'a', 'b', 'c'}) {
        EXPECT_EQ(std::count(trace.begin(), trace.end(), name), 4) << trace;
      }
    }
  }
}

TEST(Schedule, IdleNeverGoesBeyondItsLimit) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    DeviceRig rig(Simulated(SchedulePolicy::kRandom, seed));
    const DeviceStream stream = rig.Stream();
    for (int i = 0; i < 10; ++i) rig.Expect(rig->Busy(stream, 1'000'000));
    for (std::int64_t limit = 100; limit < 2'000; limit += 100) {
      rig->Idle(limit);
      EXPECT_LE(rig->NowNanos(), limit);
    }
  }
}

TEST(Schedule, AHostThatIdlesSeesEverythingDoneInTheEnd) {
  for (const auto policy : {SchedulePolicy::kLazy, SchedulePolicy::kRandom,
                            SchedulePolicy::kPriorities, SchedulePolicy::kEager}) {
    EmulatedOptions options = Simulated(policy, 3);
    options.starved_stream = 0;
    DeviceRig rig(options);
    const DeviceStream starved = rig.Stream();
    const DeviceStream other = rig.Stream();
    const DeviceEvent event = rig.Event();
    rig.Expect(rig->Busy(starved, 10));
    rig.Expect(rig->Record(event, starved));
    rig.Expect(rig->StreamWait(other, event));
    rig.Expect(rig->Busy(other, 10));
    rig.Expect(rig->Record(event, other));
    for (int i = 0; i < 100 && !rig.Done(event); ++i) rig->Idle(rig->NowNanos() + 10);
    EXPECT_TRUE(rig.Done(event));
  }
}

TEST(Schedule, AStarvedStreamComesLastUnderEveryPolicy) {
  for (const auto policy : {SchedulePolicy::kTimed, SchedulePolicy::kEager, SchedulePolicy::kLazy,
                            SchedulePolicy::kRandom, SchedulePolicy::kPriorities}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      EmulatedOptions options = Simulated(policy, seed);
      options.starved_stream = 1;
      DeviceRig rig(options);
      std::string trace;
      const DeviceStream other = rig.Stream();
      const DeviceStream starved = rig.Stream();
      rig.Expect(rig->LaunchHost(other, [&] { trace += 'o'; }, {}));
      rig.Expect(rig->LaunchHost(starved, [&] { trace += 's'; }, {}));
      rig.Expect(rig->LaunchHost(other, [&] { trace += 'o'; }, {}));
      rig->Drain();
      EXPECT_EQ(trace, "oos");
    }
  }
}

TEST(Schedule, LateQueriesSayFalseSoOften) {
  EmulatedOptions options = Simulated(SchedulePolicy::kEager);
  options.late_queries = 3;
  DeviceRig rig(options);
  const DeviceStream stream = rig.Stream();
  const DeviceEvent event = rig.Event();
  for (int round = 0; round < 2; ++round) {
    rig.Expect(rig->Record(event, stream));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(rig.Done(event));
    EXPECT_TRUE(rig.Done(event));
    EXPECT_TRUE(rig.Done(event));
  }
}

TEST(Schedule, OthersRunBetweenThePiecesOfASplitCopy) {
  std::set<std::string> traces;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EmulatedOptions options = Simulated(SchedulePolicy::kRandom, seed);
    options.split_bytes = 1;
    options.check_hazards = false;
    DeviceRig rig(options);
    std::byte* memory = rig.Device(3);
    const DeviceStream copies = rig.Stream();
    const DeviceStream other = rig.Stream();
    std::string seen;
    rig.Expect(rig->CopyToDevice(copies, memory, rig.Host(3, std::byte{1}), 3));
    rig.Expect(rig->LaunchHost(other,
                               [&] {
                                 for (int i = 0; i < 3; ++i)
                                   seen += memory[i] == std::byte{1} ? '1' : '.';
                               },
                               {}));
    rig->Drain();
    traces.insert(seen);
    EXPECT_EQ(memory[2], std::byte{1});
  }
  EXPECT_EQ(traces, (std::set<std::string>{"...", "1..", "11.", "111"}));
}

/// How many of the steps of a feed with two streams saw their own bytes.
std::size_t RightSteps(const EmulatedOptions& options, std::size_t steps) {
  constexpr std::size_t kBytes = 64;
  constexpr std::size_t kSlots = 2;
  DeviceRig rig(options);
  const DeviceStream copies = rig.Stream(0, StreamPriority::kHigh);
  const DeviceStream compute = rig.Stream();
  std::byte* slabs = rig.Host(kSlots * kBytes);
  std::byte* slots = rig.Device(kSlots * kBytes);
  std::vector<DeviceEvent> copied;
  std::vector<DeviceEvent> released;
  for (std::size_t i = 0; i < kSlots; ++i) {
    copied.push_back(rig.Event());
    released.push_back(rig.Event());
  }
  std::size_t right = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    const std::size_t i = step % kSlots;
    std::byte* slab = slabs + i * kBytes;
    std::byte* slot = slots + i * kBytes;
    rig.Await(copied[i]);
    rig->NoteHostWrite(slab, kBytes, "fill");
    std::fill_n(slab, kBytes, static_cast<std::byte>(step + 1));
    rig.Expect(rig->StreamWait(copies, released[i]));
    rig.Expect(rig->CopyToDevice(copies, slot, slab, kBytes));
    rig.Expect(rig->Record(copied[i], copies));
    rig.Expect(rig->StreamWait(compute, copied[i]));
    const std::vector<MemoryAccess> reads = {{slot, kBytes, false}};
    rig.Expect(rig->LaunchHost(
        compute,
        [&right, slot, step] {
          if (std::count(slot, slot + kBytes, static_cast<std::byte>(step + 1)) == kBytes) ++right;
        },
        reads));
    rig.Expect(rig->Record(released[i], compute));
  }
  rig.Expect(rig->SyncStream(compute));
  rig.ExpectNoOffence();
  return right;
}

TEST(Schedule, AFeedIsRightUnderEverySchedule) {
  for (const auto policy : {SchedulePolicy::kTimed, SchedulePolicy::kEager, SchedulePolicy::kLazy,
                            SchedulePolicy::kRandom, SchedulePolicy::kPriorities}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      EmulatedOptions options = Simulated(policy, seed);
      options.split_bytes = seed % 4 * 8;
      options.starved_stream = static_cast<int>(seed % 3) - 1;
      options.late_queries = static_cast<int>(seed % 5);
      EXPECT_EQ(RightSteps(options, 20), 20U);
    }
  }
}

TEST(Schedule, PiecesOfABatchGoInAnyOrder) {
  std::set<std::string> traces;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    EmulatedOptions options = Simulated(SchedulePolicy::kRandom, seed);
    options.split_bytes = 1;
    options.check_hazards = false;
    DeviceRig rig(options);
    std::byte* memory = rig.Device(2);
    std::byte* source = rig.Host(2, std::byte{1});
    const DeviceStream copies = rig.Stream();
    const DeviceStream other = rig.Stream();
    std::string seen;
    const std::vector<CopyPiece> pieces = {{memory, source, 1}, {memory + 1, source + 1, 1}};
    rig.Expect(rig->CopyBatchToDevice(copies, pieces));
    rig.Expect(rig->LaunchHost(other,
                               [&] {
                                 for (int i = 0; i < 2; ++i)
                                   seen += memory[i] == std::byte{1} ? '1' : '.';
                               },
                               {}));
    rig->Drain();
    traces.insert(seen);
  }
  EXPECT_TRUE(traces.contains(".1"));
  EXPECT_TRUE(traces.contains("1."));
}

}  // namespace
}  // namespace ringfeed
