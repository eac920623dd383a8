// The emulated devices' checker against every pair of a program's accesses, looked at one by one:
// random programs, each with one of its waits left out.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/conformance/backend_conformance.h"
#include "tests/gpu/conformance/random_program.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Steps = std::vector<ProgramStep>;

bool Conflict(const ProgramAccess& a, const ProgramAccess& b) {
  return (a.writes || b.writes) && a.memory == b.memory && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes && a.bytes > 0 && b.bytes > 0;
}

bool Conflict(const ProgramStep& a, const ProgramStep& b) {
  for (const ProgramAccess& of_a : a.accesses) {
    for (const ProgramAccess& of_b : b.accesses) {
      if (Conflict(of_a, of_b)) return true;
    }
  }
  return false;
}

// Whether some step touches what another one writes, and nothing puts the two into an order.
bool Races(const Steps& steps) {
  const std::vector<std::vector<std::size_t>> before = StepsBefore(steps, false);
  std::vector<std::vector<bool>> is_behind(steps.size(), std::vector<bool>(steps.size()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const std::size_t direct : before[i]) {
      is_behind[i][direct] = true;
      for (std::size_t j = 0; j < direct; ++j) {
        if (is_behind[direct][j]) is_behind[i][j] = true;
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!is_behind[i][j] && Conflict(steps[i], steps[j])) return true;
    }
  }
  return false;
}

// The offences of the steps on a simulator.
std::vector<Offence> OffencesOf(const RandomProgram& program, const Steps& steps,
                                SchedulePolicy policy, std::uint64_t seed) {
  EmulatedOptions options;
  options.devices.resize(program.shape().devices);
  for (EmulatedDevice& device : options.devices) device.memory_bytes = std::size_t{1} << 20;
  options.simulated = true;
  options.policy = policy;
  options.seed = seed;
  const std::shared_ptr<EmulatedDevices> devices = EmulatedDevices::Open(options);
  AlignedBuffer host(RandomProgram::kMemoryBytes);
  EXPECT_TRUE(Ok(devices->RegisterHost(host.data(), host.size())));
  ProgramMemories memories = {host.data()};
  for (std::size_t i = 0; i < program.shape().devices; ++i) {
    memories.push_back(nullptr);
    EXPECT_TRUE(Ok(
        devices->AllocDevice(static_cast<int>(i), RandomProgram::kMemoryBytes, &memories.back())));
  }
  std::vector<DeviceStream> streams(program.shape().streams);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const int device = static_cast<int>(i % program.shape().devices);
    EXPECT_TRUE(Ok(devices->CreateStream(device, StreamPriority::kNormal, &streams[i])));
  }
  std::vector<DeviceEvent> events(program.shape().events);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const int device = static_cast<int>(i % program.shape().devices);
    EXPECT_TRUE(Ok(devices->CreateEvent(device, EventKind::kPlain, &events[i])));
  }
  for (const ProgramStep& step : steps) {
    const DeviceStream stream = streams[step.stream];
    EXPECT_TRUE(Ok(devices->BindThread(static_cast<int>(step.stream % program.shape().devices))));
    if (step.kind == ProgramStep::Kind::kRecord) {
      EXPECT_TRUE(Ok(devices->Record(events[step.event], stream)));
    } else if (step.kind == ProgramStep::Kind::kWait) {
      EXPECT_TRUE(Ok(devices->StreamWait(stream, events[step.event])));
    } else {
      EXPECT_TRUE(Ok(step.enqueue(*devices, stream, memories)));
    }
  }
  for (const DeviceStream stream : streams) EXPECT_TRUE(Ok(devices->SyncStream(stream)));
  return devices->offences();
}

class PlantedRace : public testing::TestWithParam<SchedulePolicy> {};

TEST_P(PlantedRace, IsFoundWhicheverWaitIsLeftOutAndOnlyWhereItIsOne) {
  int races = 0;
  int harmless = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(StressRounds(10)); ++seed) {
    const RandomProgram program({1 + seed % 2, 2 + seed % 3, 4, 60}, seed);
    EXPECT_TRUE(OffencesOf(program, program.steps(), GetParam(), seed).empty()) << seed;
    for (std::size_t left_out = 0; left_out < program.steps().size(); ++left_out) {
      if (program.steps()[left_out].kind != ProgramStep::Kind::kWait) continue;
      Steps steps = program.steps();
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(left_out));
      const bool expected = Races(steps);
      ++(expected ? races : harmless);
      const std::vector<Offence> offences = OffencesOf(program, steps, GetParam(), seed);
      ASSERT_EQ(!offences.empty(), expected)
          << "seed " << seed << " without step " << left_out
          << (offences.empty() ? std::string() : ": " + offences[0].ToString());
      std::size_t unordered = 0;
      for (const Offence& offence : offences) {
        unordered += offence.rule == "unordered" ? 1 : 0;
        // A race may be seen to happen, too: a copy down writes where one is copying from.
        EXPECT_TRUE(offence.rule == "unordered" || offence.rule == "source changed under a copy")
            << offence.ToString();
      }
      EXPECT_EQ(unordered > 0, expected);
    }
  }
  EXPECT_GT(races, 0);
  EXPECT_GT(harmless, 0);
}

std::string PolicyName(const testing::TestParamInfo<SchedulePolicy>& info) {
  constexpr std::array kNames = {"Timed", "Eager", "Lazy", "Random", "Priorities"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Simulated, PlantedRace,
                         testing::Values(SchedulePolicy::kTimed, SchedulePolicy::kEager,
                                         SchedulePolicy::kLazy, SchedulePolicy::kRandom,
                                         SchedulePolicy::kPriorities),
                         PolicyName);

}  // namespace
}  // namespace ringfeed
