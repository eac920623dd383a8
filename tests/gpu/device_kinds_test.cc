#include "ringfeed/devices/device_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {
namespace {

const DeviceKindStatus* Find(const std::vector<DeviceKindStatus>& kinds, const std::string& name) {
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const DeviceKindStatus& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

Status StatusOfOpening(const std::string& kind) {
  try {
    OpenDevices(kind);
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

StatusCode CodeOfRegistering(const std::string& name, DeviceOpener opener, DeviceProbe probe) {
  try {
    RegisterDeviceKind(name, std::move(opener), std::move(probe));
  } catch (const Error& error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

std::shared_ptr<DeviceBackend> OpenTwo(const std::string&) { return EmulatedDevices::Open(2); }
Status ProbeTwo(int* devices) {
  *devices = 2;
  return {};
}

TEST(DeviceKindsTest, EmulatedDevicesAreOpenedByTheirNumber) {
  EXPECT_EQ(OpenDevices("emu")->DeviceCount(), 1);
  EXPECT_EQ(OpenDevices("emu:3")->DeviceCount(), 3);
  EXPECT_EQ(OpenDevices("emu:3")->name(), "emu");
}

TEST(DeviceKindsTest, ANumberThatIsNoneIsRefused) {
  for (const char* kind : {"emu:", "emu:0", "emu:-1", "emu:x", "emu:2x", "emu: 2", "emu:99999",
                           "emu:99999999999999999999"}) {
    EXPECT_EQ(StatusOfOpening(kind).code(), StatusCode::kInvalidArgument) << kind;
  }
}

TEST(DeviceKindsTest, AKindThatThereIsNotIsRefusedWithThoseThatThereAre) {
  for (const char* kind : {"", "tpu", "Emu", ":2", "emu2"}) {
    const Status status = StatusOfOpening(kind);
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << kind;
    EXPECT_NE(status.message().find("emu"), std::string::npos) << status.message();
  }
}

TEST(DeviceKindsTest, EmulatedDevicesAreAlwaysThere) {
  const std::vector<DeviceKindStatus> kinds = DeviceKinds();
  const DeviceKindStatus* const emulated = Find(kinds, "emu");
  ASSERT_NE(emulated, nullptr);
  EXPECT_TRUE(emulated->status.ok());
  EXPECT_EQ(emulated->devices, 0);
}

// This program never calls UseCuda.
TEST(DeviceKindsTest, CudaIsListedWithWhatIsMissing) {
  const std::vector<DeviceKindStatus> kinds = DeviceKinds();
  const DeviceKindStatus* const cuda = Find(kinds, "cuda");
  ASSERT_NE(cuda, nullptr);
  EXPECT_EQ(cuda->status.code(), StatusCode::kUnsupported);
  EXPECT_NE(cuda->status.message().find(RINGFEED_CUDA_REMEDY), std::string::npos)
      << cuda->status.message();
  const Status opening = StatusOfOpening("cuda");
  EXPECT_EQ(opening.code(), cuda->status.code());
  EXPECT_EQ(opening.message(), cuda->status.message() +
                                   "; for a trial without a GPU ask for emulated devices: "
                                   "\"emu:2\" are two");
}

TEST(DeviceKindsTest, AutoTakesEmulatedDevicesAndSaysWhy) {
  const AutoDevices taken = OpenAutoDevices();
  EXPECT_TRUE(taken.emulated);
  EXPECT_EQ(taken.backend->name(), "emu");
  EXPECT_EQ(taken.backend->DeviceCount(), 2);
  EXPECT_EQ(taken.reason, "emulated, as CUDA cannot be used here: " +
                              Find(DeviceKinds(), "cuda")->status.message());
  EXPECT_EQ(OpenAutoDevices(3).backend->DeviceCount(), 3);
}

// Whoever opens by a text gets what the text says, and "auto" has something to say.
TEST(DeviceKindsTest, AutoIsNoKind) {
  EXPECT_EQ(StatusOfOpening("auto").code(), StatusCode::kInvalidArgument);
  EXPECT_NE(StatusOfOpening("auto").message().find("OpenAutoDevices"), std::string::npos);
  EXPECT_EQ(CodeOfRegistering("auto", OpenTwo, ProbeTwo), StatusCode::kInvalidArgument);
}

TEST(DeviceKindsTest, AKindOfTheUsersIsOpenedWithWhatStandsBehindItsName) {
  std::string argument;
  RegisterDeviceKind(
      "mine",
      [&](const std::string& given) {
        argument = given;
        return OpenTwo(given);
      },
      ProbeTwo);
  EXPECT_EQ(OpenDevices("mine:a:b")->DeviceCount(), 2);
  EXPECT_EQ(argument, "a:b");
  const std::vector<DeviceKindStatus> kinds = DeviceKinds();
  ASSERT_NE(Find(kinds, "mine"), nullptr);
  EXPECT_EQ(Find(kinds, "mine")->devices, 2);
}

TEST(DeviceKindsTest, NamesAreWordsAndTakenOnce) {
  EXPECT_EQ(CodeOfRegistering("twice", OpenTwo, ProbeTwo), StatusCode::kOk);
  for (const char* name : {"twice", "emu", "", "a b", "a:b"}) {
    EXPECT_EQ(CodeOfRegistering(name, OpenTwo, ProbeTwo), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(CodeOfRegistering("half", OpenTwo, nullptr), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOfRegistering("half", nullptr, ProbeTwo), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringfeed
