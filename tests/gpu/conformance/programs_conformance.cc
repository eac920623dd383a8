// Random programs over several streams end in the bytes that their steps give one by one.

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/gpu/conformance/backend_conformance.h"
#include "tests/gpu/conformance/random_program.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

// What a program runs with on a backend.
struct Place {
  std::vector<DeviceStream> streams;
  std::vector<DeviceEvent> events;
  ProgramMemories memories;
};

Status Enqueue(DeviceBackend& backend, const Place& place, const ProgramStep& step,
               std::size_t devices) {
  const DeviceStream stream = place.streams[step.stream];
  switch (step.kind) {
    case ProgramStep::Kind::kRecord:
      return backend.Record(place.events[step.event], stream);
    case ProgramStep::Kind::kWait:
      return backend.StreamWait(stream, place.events[step.event]);
    case ProgramStep::Kind::kWork:
      break;
  }
  const Status bound = backend.BindThread(static_cast<int>(step.stream % devices));
  return bound.ok() ? step.enqueue(backend, stream, place.memories) : bound;
}

// Enqueues all of it; the host looks and idles in between.
void Enqueue(DeviceBackend& backend, const Place& place, const RandomProgram& program,
             std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const ProgramStep& step : program.steps()) {
    ASSERT_TRUE(Ok(Enqueue(backend, place, step, program.shape().devices)));
    if (random() % 16 == 0) {
      bool done = false;
      ASSERT_TRUE(Ok(backend.Query(place.events[random() % place.events.size()], &done)));
    }
    if (random() % 32 == 0) {
      backend.Idle(backend.NowNanos() + static_cast<std::int64_t>(random() % 50'000));
    }
  }
}

TEST_P(BackendConformance, RandomProgramsGiveWhatTheirStepsGiveOneByOne) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(StressRounds(30)); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::size_t devices = HasDevices(2) ? 1 + seed % 2 : 1;
    const RandomProgram program({devices, 2 + seed % 3, 4 + seed % 5, 150}, seed);
    Place place;
    for (std::size_t memory = 0; memory <= devices; ++memory) {
      const std::vector<std::byte> bytes = program.InitialBytes(memory);
      const std::span<std::byte> host = NewHost(bytes.size(), std::byte{0});
      backend().NoteHostWrite(host.data(), host.size(), "a program's first bytes");
      std::copy(bytes.begin(), bytes.end(), host.begin());
      if (memory == 0) {
        place.memories.push_back(host.data());
        continue;
      }
      const int device = static_cast<int>(memory) - 1;
      place.memories.push_back(NewDevice(bytes.size(), device));
      const DeviceStream stream = NewStream(device);
      ASSERT_TRUE(
          Ok(backend().CopyToDevice(stream, place.memories.back(), host.data(), host.size())));
      ASSERT_TRUE(Ok(backend().SyncStream(stream)));
    }
    for (std::size_t i = 0; i < program.shape().streams; ++i) {
      place.streams.push_back(NewStream(static_cast<int>(i % devices)));
    }
    for (std::size_t i = 0; i < program.shape().events; ++i) {
      place.events.push_back(NewEvent(static_cast<int>(i % devices)));
    }
    Enqueue(backend(), place, program, seed);
    for (const DeviceStream stream : place.streams) ASSERT_TRUE(Ok(backend().SyncStream(stream)));
    const std::vector<std::vector<std::byte>> expected = program.Result();
    HostRead({place.memories[0], expected[0].size()});
    EXPECT_TRUE(std::equal(expected[0].begin(), expected[0].end(), place.memories[0]));
    for (std::size_t memory = 1; memory <= devices; ++memory) {
      EXPECT_EQ(
          ReadBack(place.streams[memory - 1], place.memories[memory], expected[memory].size()),
          expected[memory]);
    }
    for (const DeviceStream stream : place.streams) Destroy(stream);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ringfeed
