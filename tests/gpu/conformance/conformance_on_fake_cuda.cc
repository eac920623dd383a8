// The suite on CUDA's backend over a runtime of the tests' own: what the backend itself adds to
// CUDA, on any machine.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gpu/backends/cuda/cuda_backend.h"
#include "ringfeed/devices/cuda_devices.h"
#include "tests/gpu/conformance/backend_conformance.h"
#include "tests/gpu/conformance/feed_conformance.h"
#include "tests/gpu/conformance/kernels_conformance.h"
#include "tests/gpu/conformance/set_up_conformance.h"
#include "tests/gpu/conformance/stage_conformance.h"
#include "tests/gpu/cuda/fake_cudart.h"

namespace ringfeed {
namespace {

constexpr int kDevices = 2;
// Registrations are made in pieces of that size, so that the copies of the suite cross borders.
constexpr std::size_t kPiece = std::size_t{1} << 16;

std::vector<std::string> ComplaintsOf(DeviceBackend&, bool) {
  const fake_cudart::Live live = fake_cudart::LiveNow();
  std::vector<std::string> complaints;
  const auto leaked = [&](std::size_t count, const char* what) {
    if (count > 0) complaints.push_back(std::to_string(count) + " not given back: " + what);
  };
  leaked(live.allocations, "allocations");
  leaked(live.registrations, "registrations");
  leaked(live.streams, "streams");
  leaked(live.events, "events");
  if (fake_cudart::LastError() != cudaSuccess) complaints.push_back("an error is left pending");
  return complaints;
}

BackendUnderTest OverFakeRuntime() {
  BackendUnderTest backend;
  backend.name = "FakeRuntime";
  backend.open = [](std::string*) -> std::shared_ptr<DeviceBackend> {
    fake_cudart::Restart({.devices = kDevices});
    return std::make_shared<CudaBackend>(kDevices, kPiece);
  };
  backend.complaints = ComplaintsOf;
  backend.keeps_time = false;
  return backend;
}

/// As programs open it: whoever else does has the same devices.
BackendUnderTest AsOpened() {
  BackendUnderTest backend = OverFakeRuntime();
  backend.open = [](std::string*) {
    static std::weak_ptr<DeviceBackend> opened;
    if (opened.expired()) fake_cudart::Restart({.devices = kDevices});
    std::shared_ptr<DeviceBackend> devices = OpenCudaDevices(nullptr);
    opened = devices;
    return devices;
  };
  return backend;
}

FreshDevices Fresh() {
  return {"FakeRuntime",
          [](int devices) {
            fake_cudart::Restart({.devices = devices});
            return std::make_shared<CudaBackend>(devices);
          },
          [](DeviceBackend& backend) {
            std::vector<int> devices;
            for (int device = 0; device < backend.DeviceCount(); ++device) {
              if (fake_cudart::HasContext(device)) devices.push_back(device);
            }
            return devices;
          }};
}

INSTANTIATE_TEST_SUITE_P(Cuda, SetUpConformance, testing::Values(Fresh()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Cuda, FeedConformance, testing::Values(AsOpened()), BackendName);
INSTANTIATE_TEST_SUITE_P(Cuda, StageConformance, testing::Values(AsOpened()), BackendName);
INSTANTIATE_TEST_SUITE_P(Cuda, ThreadedFeedConformance, testing::Values(AsOpened()), BackendName);
INSTANTIATE_TEST_SUITE_P(Cuda, BackendConformance, testing::Values(OverFakeRuntime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Cuda, KernelsConformance, testing::Values(OverFakeRuntime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Cuda, ThreadsConformance, testing::Values(OverFakeRuntime()), BackendName);
INSTANTIATE_TEST_SUITE_P(Cuda, UnregisteredConformance, testing::Values(OverFakeRuntime()),
                         BackendName);

}  // namespace
}  // namespace ringfeed
