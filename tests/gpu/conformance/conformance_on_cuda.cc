// The suite on the machine's GPUs; skips where there are none that CUDA can use.

#include <gtest/gtest.h>

#include <cstdio>

#include "ringfeed/devices/cuda_devices.h"
#include "tests/gpu/conformance/backend_conformance.h"
#include "tests/gpu/conformance/feed_conformance.h"
#include "tests/gpu/conformance/kernels_conformance.h"
#include "tests/gpu/conformance/stage_conformance.h"

namespace ringfeed {
namespace {

BackendUnderTest Cuda() {
  BackendUnderTest backend;
  backend.name = "Cuda";
  backend.open = [](std::string* why_not) {
    Status status;
    std::shared_ptr<DeviceBackend> devices = OpenCudaDevices(&status);
    if (devices == nullptr) *why_not = status.ToString();
    return devices;
  };
  backend.hardware = true;
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Machine, BackendConformance, testing::Values(Cuda()), BackendName);
INSTANTIATE_TEST_SUITE_P(Machine, KernelsConformance, testing::Values(Cuda()), BackendName);
INSTANTIATE_TEST_SUITE_P(Machine, StageConformance, testing::Values(Cuda()), BackendName);
INSTANTIATE_TEST_SUITE_P(Machine, FeedConformance, testing::Values(Cuda()), BackendName);
INSTANTIATE_TEST_SUITE_P(Machine, ThreadedFeedConformance, testing::Values(Cuda()), BackendName);
INSTANTIATE_TEST_SUITE_P(Machine, ThreadsConformance, testing::Values(Cuda()), BackendName);
INSTANTIATE_TEST_SUITE_P(Machine, UnregisteredConformance, testing::Values(Cuda()), BackendName);

}  // namespace
}  // namespace ringfeed

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const ringfeed::Status status = ringfeed::CudaStatus();
  if (!status.ok()) {
    std::printf("skipped: %s\n", status.ToString().c_str());
    return 77;  // as CMakeLists.txt says
  }
  return RUN_ALL_TESTS();
}
