#include "ringfeed/devices/cuda_devices.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/devices/device_kinds.h"
#include "tests/gpu/cuda/fake_cudart.h"

namespace ringfeed {
namespace {

// With CUDA_VISIBLE_DEVICES as a test sets it.
class CudaDevicesTest : public testing::Test {
 protected:
  CudaDevicesTest() {
    if (const char* const value = std::getenv(kVisible)) before_ = value;
    unsetenv(kVisible);
  }
  ~CudaDevicesTest() override {
    unsetenv(kVisible);
    if (before_) setenv(kVisible, before_->c_str(), 1);
  }

  static void ExpectNot(StatusCode code, const std::string& part) {
    Status why_not;
    EXPECT_EQ(OpenCudaDevices(&why_not), nullptr);
    EXPECT_EQ(why_not.code(), code) << why_not.ToString();
    EXPECT_NE(why_not.message().find(part), std::string::npos) << why_not.message();
    EXPECT_EQ(CudaStatus().ToString(), why_not.ToString());
    EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
  }

  static constexpr char kVisible[] = "CUDA_VISIBLE_DEVICES";
  std::optional<std::string> before_;
};

TEST_F(CudaDevicesTest, AreThoseOfTheMachine) {
  fake_cudart::Restart({.devices = 3});
  Status why_not(StatusCode::kInternal, "not set");
  const auto devices = OpenCudaDevices(&why_not);
  ASSERT_NE(devices, nullptr);
  EXPECT_TRUE(why_not.ok());
  EXPECT_EQ(devices->name(), "cuda");
  EXPECT_EQ(devices->DeviceCount(), 3);
  EXPECT_TRUE(CudaStatus().ok());
  for (const int device : {0, 1, 2}) EXPECT_FALSE(fake_cudart::HasContext(device));
}

TEST_F(CudaDevicesTest, AreOneBackendForAllWhoOpenThem) {
  fake_cudart::Restart({.devices = 2});
  auto first = OpenCudaDevices(nullptr);
  EXPECT_EQ(OpenCudaDevices(nullptr), first);
  // What one of them registers the other one finds registered, and undoes no more than once.
  std::vector<std::byte> host(4096);
  ASSERT_TRUE(first->RegisterHost(host.data(), host.size()).ok());
  EXPECT_TRUE(OpenCudaDevices(nullptr)->UnregisterHost(host.data()).ok());
  const std::weak_ptr<DeviceBackend> before = first;
  first.reset();
  EXPECT_TRUE(before.expired());
  EXPECT_NE(OpenCudaDevices(nullptr), nullptr);
}

// CUDA itself speaks of an initialisation error there.
TEST_F(CudaDevicesTest, AreNotThoseOfAProcessThatIsForkedFromTheirs) {
  fake_cudart::Restart({.devices = 1});
  const auto devices = OpenCudaDevices(nullptr);
  ASSERT_NE(devices, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::byte* data = nullptr;
    const bool said =
        devices->AllocDevice(0, 8, &data).message().find("fork") != std::string::npos &&
        CudaStatus().message().find("spawn") != std::string::npos;
    _exit(said ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(CudaStatus().ok());
}

TEST_F(CudaDevicesTest, NobodyNeedsToKnowWhyNot) {
  fake_cudart::Restart({.devices = 0});
  EXPECT_EQ(OpenCudaDevices(nullptr), nullptr);
}

TEST_F(CudaDevicesTest, WithoutADriverThatIsSaid) {
  fake_cudart::Restart({.driver_version = 0});
  ExpectNot(StatusCode::kNotFound, "there is no driver");
}

TEST_F(CudaDevicesTest, ADriverThatIsTooOldIsNamedWithWhatIsNeeded) {
  fake_cudart::Restart({.driver_version = 11080});
  ExpectNot(StatusCode::kUnsupported, "for CUDA 11.8");
  ExpectNot(StatusCode::kUnsupported, "built with " + std::to_string(CUDART_VERSION / 1000) + ".");
}

TEST_F(CudaDevicesTest, WithoutADeviceThatIsSaid) {
  fake_cudart::Restart({.devices = 0});
  ExpectNot(StatusCode::kNotFound, "a driver but no device");
}

TEST_F(CudaDevicesTest, WhereTheEnvironmentHidesAllItsVariableIsNamed) {
  fake_cudart::Restart({.devices = 0});
  setenv(kVisible, "", 1);
  ExpectNot(StatusCode::kNotFound, "CUDA_VISIBLE_DEVICES is ''");
  setenv(kVisible, "7", 1);
  ExpectNot(StatusCode::kNotFound, "CUDA_VISIBLE_DEVICES is '7'");
}

TEST_F(CudaDevicesTest, OtherFailuresAreCudasWithTheirRemedy) {
  fake_cudart::Restart();
  for (int call = 1; call <= 2; ++call) {
    fake_cudart::FailNth("cudaGetDeviceCount", call, cudaErrorSystemDriverMismatch);
  }
  ExpectNot(StatusCode::kUnsupported, "of different versions");
}

TEST_F(CudaDevicesTest, UsedTheyAreAKindOfDevices) {
  fake_cudart::Restart({.devices = 2});
  UseCuda();
  UseCuda();
  EXPECT_EQ(OpenDevices("cuda")->DeviceCount(), 2);
  const std::vector<DeviceKindStatus> kinds = DeviceKinds();
  const auto cuda = std::find_if(kinds.begin(), kinds.end(),
                                 [](const DeviceKindStatus& kind) { return kind.name == "cuda"; });
  ASSERT_NE(cuda, kinds.end());
  EXPECT_TRUE(cuda->status.ok());
  EXPECT_EQ(cuda->devices, 2);
}

TEST_F(CudaDevicesTest, AKindThatCannotBeUsedSaysWhy) {
  fake_cudart::Restart({.driver_version = 0});
  UseCuda();
  try {
    OpenDevices("cuda");
    FAIL() << "opened without a driver";
  } catch (const Error& error) {
    const std::string why = error.status().ToString();
    EXPECT_TRUE(why.starts_with(CudaStatus().ToString())) << why;
    EXPECT_NE(why.find("\"emu:2\""), std::string::npos) << why;
  }
}

TEST_F(CudaDevicesTest, NoNumberIsTakenBehindTheName) {
  fake_cudart::Restart();
  UseCuda();
  try {
    OpenDevices("cuda:1");
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.status().message().find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
