// CUDA's own runtime on whatever machine this is: with a driver or without, what is said of it
// holds.

#include <gtest/gtest.h>

#include <string>

#include "ringfeed/devices/cuda_devices.h"
#include "ringfeed/devices/device_kinds.h"

namespace ringfeed {
namespace {

TEST(CudaMachine, DevicesAreOpenedOrItIsSaidWhyNot) {
  Status why_not(StatusCode::kInternal, "not set");
  const auto devices = OpenCudaDevices(&why_not);
  EXPECT_EQ(CudaStatus().ToString(), why_not.ToString());
  if (devices == nullptr) {
    ASSERT_FALSE(why_not.ok());
    EXPECT_EQ(why_not.message().substr(0, 6), "CUDA: ") << why_not.ToString();
    EXPECT_GT(why_not.message().size(), 30U) << why_not.ToString();
  } else {
    EXPECT_TRUE(why_not.ok());
    EXPECT_GT(devices->DeviceCount(), 0);
    DeviceInfo info;
    EXPECT_TRUE(devices->Info(0, &info).ok());
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory_bytes, 0U);
  }
}

TEST(CudaMachine, AskingAgainSaysTheSame) {
  const std::string first = CudaStatus().ToString();
  EXPECT_EQ(CudaStatus().ToString(), first);
}

TEST(CudaMachine, TheKindSaysWhatTheStatusSays) {
  UseCuda();
  for (const DeviceKindStatus& kind : DeviceKinds()) {
    if (kind.name != "cuda") continue;
    EXPECT_EQ(kind.status.ToString(), CudaStatus().ToString());
    EXPECT_EQ(kind.status.ok(), kind.devices > 0);
    return;
  }
  FAIL() << "CUDA is no kind of devices";
}

}  // namespace
}  // namespace ringfeed
