// The suite on emulated devices: the simulator under each policy, and in real time.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/conformance/backend_conformance.h"
#include "tests/gpu/conformance/feed_conformance.h"
#include "tests/gpu/conformance/kernels_conformance.h"
#include "tests/gpu/conformance/set_up_conformance.h"
#include "tests/gpu/conformance/stage_conformance.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

std::vector<std::string> ComplaintsOf(DeviceBackend& backend, bool meant_wrong_use) {
  const auto& emulated = dynamic_cast<const EmulatedDevices&>(backend);
  std::vector<std::string> complaints;
  if (!meant_wrong_use) {
    for (const Offence& offence : emulated.offences()) complaints.push_back(offence.ToString());
  }
  const DeviceLeaks leaks = emulated.Leaks();
  const auto leaked = [&](std::size_t count, const char* what) {
    if (count > 0) complaints.push_back(std::to_string(count) + " not given back: " + what);
  };
  leaked(leaks.allocations, "allocations");
  leaked(leaks.registrations, "registrations");
  leaked(leaks.streams, "streams");
  leaked(leaks.events, "events");
  return complaints;
}

BackendUnderTest Emulated(const std::string& name, EmulatedOptions options) {
  // The second device is another one: a fifth of the speed.
  options.devices = {{.memory_bytes = std::size_t{64} << 20},
                     {.memory_bytes = std::size_t{64} << 20,
                      .link_bytes_per_s = 2.4e9,
                      .copy_latency_ns = 50'000,
                      .speed = 0.2}};
  BackendUnderTest backend;
  backend.name = name;
  backend.open = [options](std::string*) { return EmulatedDevices::Open(options); };
  backend.complaints = ComplaintsOf;
  backend.virtual_time = options.simulated;
  backend.keeps_time = !options.simulated || options.policy == SchedulePolicy::kTimed;
  backend.answers_late = options.late_queries > 0;
  return backend;
}

BackendUnderTest Simulated(const std::string& name, SchedulePolicy policy, std::uint64_t seed = 0,
                           std::size_t split_bytes = 0, int starved_stream = -1,
                           int late_queries = 0) {
  EmulatedOptions options;
  options.simulated = true;
  options.policy = policy;
  options.seed = seed;
  options.split_bytes = split_bytes;
  options.starved_stream = starved_stream;
  options.late_queries = late_queries;
  return Emulated(name, options);
}

std::vector<BackendUnderTest> AllSimulated() {
  // One of each policy is enough of a sanitizer: what another seed finds, it finds without one.
  if (kSanitized) {
    return {Simulated("TimedInPieces", SchedulePolicy::kTimed, 0, 1000),
            Simulated("Eager", SchedulePolicy::kEager),
            Simulated("Lazy", SchedulePolicy::kLazy),
            Simulated("Random3InPieces", SchedulePolicy::kRandom, 3, 1000),
            Simulated("Priorities1", SchedulePolicy::kPriorities, 1),
            Simulated("Starved", SchedulePolicy::kTimed, 0, 0, 0),
            Simulated("AnsweringLate", SchedulePolicy::kTimed, 0, 0, -1, 3)};
  }
  return {Simulated("Timed", SchedulePolicy::kTimed),
          Simulated("TimedInPieces", SchedulePolicy::kTimed, 0, 1000),
          Simulated("Eager", SchedulePolicy::kEager),
          Simulated("Lazy", SchedulePolicy::kLazy),
          Simulated("Random1", SchedulePolicy::kRandom, 1),
          Simulated("Random2", SchedulePolicy::kRandom, 2),
          Simulated("Random3InPieces", SchedulePolicy::kRandom, 3, 1000),
          Simulated("Priorities1", SchedulePolicy::kPriorities, 1),
          Simulated("Priorities2", SchedulePolicy::kPriorities, 2),
          Simulated("Priorities3InPieces", SchedulePolicy::kPriorities, 3, 1000),
          Simulated("Starved", SchedulePolicy::kTimed, 0, 0, 0),
          Simulated("AnsweringLate", SchedulePolicy::kTimed, 0, 0, -1, 3)};
}

BackendUnderTest InRealTime() { return Emulated("RealTime", {}); }

std::vector<BackendUnderTest> Lenient() {
  EmulatedOptions options;
  options.strict = false;
  EmulatedOptions simulated = options;
  simulated.simulated = true;
  return {Emulated("RealTime", options), Emulated("Timed", simulated)};
}

/// The registrations are the process's, as CUDA's are.
std::vector<BackendUnderTest> OfOneProcess() {
  EmulatedOptions options;
  options.shared_registrations = true;
  EmulatedOptions simulated = options;
  simulated.simulated = true;
  return {Emulated("RealTime", options), Emulated("Timed", simulated)};
}

FreshDevices Fresh(const std::string& name, bool simulated) {
  return {name,
          [simulated](int devices) {
            EmulatedOptions options{.simulated = simulated};
            options.devices.resize(static_cast<std::size_t>(devices));
            return EmulatedDevices::Open(options);
          },
          [](DeviceBackend& backend) {
            return dynamic_cast<const EmulatedDevices&>(backend).SetUpDevices();
          }};
}

INSTANTIATE_TEST_SUITE_P(Emulated, SetUpConformance,
                         testing::Values(Fresh("RealTime", false), Fresh("Timed", true)),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(OfOneProcess, FeedConformance, testing::ValuesIn(OfOneProcess()),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Simulated, BackendConformance, testing::ValuesIn(AllSimulated()),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Simulated, KernelsConformance, testing::ValuesIn(AllSimulated()),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Simulated, FeedConformance, testing::ValuesIn(AllSimulated()),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Simulated, StageConformance, testing::ValuesIn(AllSimulated()),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Emulated, FeedConformance, testing::Values(InRealTime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Emulated, StageConformance, testing::Values(InRealTime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Emulated, ThreadedFeedConformance, testing::Values(InRealTime()),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Emulated, BackendConformance, testing::Values(InRealTime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Emulated, KernelsConformance, testing::Values(InRealTime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Emulated, ThreadsConformance, testing::Values(InRealTime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Emulated, UnregisteredConformance, testing::ValuesIn(Lenient()),
                         BackendName);

}  // namespace
}  // namespace ringfeed
