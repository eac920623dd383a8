#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "ringfeed/emulated_devices.h"

namespace ringfeed {
namespace {

/// Both kinds of executors.
class Copies : public testing::TestWithParam<bool> {
 protected:
  Copies() { options_.simulated = GetParam(); }

  EmulatedOptions options_;
};

TEST_P(Copies, BytesArriveAndComeBack) {
  const auto devices = EmulatedDevices::Open(options_);
  std::vector<std::byte> source(10'000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(devices->RegisterHost(source.data(), source.size()).ok());
  std::byte* memory = nullptr;
  ASSERT_TRUE(devices->AllocDevice(0, source.size(), &memory).ok());
  DeviceStream stream;
  ASSERT_TRUE(devices->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  EXPECT_TRUE(devices->CopyToDevice(stream, memory, source.data(), source.size()).ok());
  std::vector<std::byte> back(source.size());
  EXPECT_TRUE(devices->CopyToHost(stream, back.data(), memory, back.size()).ok());
  EXPECT_TRUE(devices->SyncStream(stream).ok());
  EXPECT_EQ(back, source);
  EXPECT_TRUE(devices->DestroyStream(stream).ok());
  EXPECT_TRUE(devices->FreeDevice(0, memory).ok());
  EXPECT_TRUE(devices->UnregisterHost(source.data()).ok());
  EXPECT_TRUE(devices->Leaks().none());
  for (const Offence& offence : devices->offences()) ADD_FAILURE() << offence.ToString();
}

INSTANTIATE_TEST_SUITE_P(Executors, Copies, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Simulated" : "Threaded";
});

}  // namespace
}  // namespace ringfeed
