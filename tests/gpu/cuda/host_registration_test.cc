#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/gpu/cuda/cuda_fixture.h"

namespace ringfeed {
namespace {

using fake_cudart::IsRegistered;
using fake_cudart::LiveNow;

// Two and a half pieces: three calls where the range begins on a border, four where it does not.
class HostRegistration : public CudaBackendTest {
 protected:
  static constexpr std::size_t kBefore = 1000;
  static constexpr std::size_t kBytes = 2 * kPiece + kPiece / 2;

  const BorderedMemory host_{kPiece, kBefore, kBytes};
};

TEST_F(HostRegistration, IsForAllDevicesAndMapped) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), 64).ok());
  EXPECT_EQ(fake_cudart::LastFlags("cudaHostRegister"),
            static_cast<unsigned int>(cudaHostRegisterPortable | cudaHostRegisterMapped));
  EXPECT_TRUE(IsRegistered(host_.data(), 64));
}

TEST_F(HostRegistration, LargeRangesAreRegisteredInPieces) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
  EXPECT_EQ(LiveNow().registrations, 4U);
  EXPECT_TRUE(IsRegistered(host_.data(), kBefore));
  EXPECT_TRUE(IsRegistered(host_.data() + kBefore, kPiece));
  EXPECT_TRUE(IsRegistered(host_.data() + kBefore + kPiece, kPiece));
  EXPECT_TRUE(IsRegistered(host_.data() + kBefore + 2 * kPiece, kPiece / 2 - kBefore));
  ASSERT_TRUE(cuda_.UnregisterHost(host_.data()).ok());
  EXPECT_EQ(LiveNow().registrations, 0U);
}

TEST_F(HostRegistration, PiecesAreOf16GiBWhereNothingElseIsSaid) {
  fake_cudart::Restart({.devices = 1});
  CudaBackend backend(1);
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  auto* const data = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44);  // never touched
  ASSERT_TRUE(backend.RegisterHost(data, 40 * kGiB).ok());
  EXPECT_EQ(LiveNow().registrations, 3U);
  EXPECT_TRUE(IsRegistered(data, 16 * kGiB));
  EXPECT_TRUE(IsRegistered(data + 32 * kGiB, 8 * kGiB));
}

TEST_F(HostRegistration, WhereAPieceFailsTheEarlierOnesAreGivenBack) {
  for (const int nth : {1, 2, 3, 4}) {
    fake_cudart::FailNth("cudaHostRegister", nth, cudaErrorMemoryAllocation);
    const Status status = cuda_.RegisterHost(host_.data(), kBytes);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << nth;
    EXPECT_EQ(LiveNow().registrations, 0U) << nth;
    EXPECT_EQ(fake_cudart::LastError(), cudaSuccess) << nth;
    EXPECT_EQ(cuda_.UnregisterHost(host_.data()).code(), StatusCode::kInvalidArgument) << nth;
  }
  EXPECT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
}

TEST_F(HostRegistration, WhereUnregisteringAPieceFailsTheOthersAreGivenBack) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
  fake_cudart::FailNth("cudaHostUnregister", 2, cudaErrorOperatingSystem);
  EXPECT_EQ(cuda_.UnregisterHost(host_.data()).code(), StatusCode::kIoError);
  EXPECT_EQ(LiveNow().registrations, 1U);  // the one that failed
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
}

TEST_F(HostRegistration, OnlyWhatIsRegisteredCanBeUnregistered) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
  EXPECT_EQ(cuda_.UnregisterHost(host_.data() + kBefore).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(LiveNow().registrations, 4U);
}

TEST_F(HostRegistration, RangesThatOverlapAreRefusedBeforeCudaIsAsked) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data() + 100, 100).ok());
  const int before = fake_cudart::Calls("cudaHostRegister");
  for (const std::size_t begin : {99U, 100U, 150U, 199U}) {
    EXPECT_EQ(cuda_.RegisterHost(host_.data() + begin, 100).code(), StatusCode::kInvalidArgument)
        << begin;
  }
  EXPECT_EQ(cuda_.RegisterHost(host_.data(), 101).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_cudart::Calls("cudaHostRegister"), before);
  EXPECT_TRUE(cuda_.RegisterHost(host_.data(), 100).ok());
  EXPECT_TRUE(cuda_.RegisterHost(host_.data() + 200, 100).ok());
}

TEST_F(HostRegistration, IsDoneByADeviceInUseWhicheverTheThreadsIs) {
  NewStream(1);
  fake_cudart::BreakContext(0, cudaErrorIllegalAddress);
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
  EXPECT_TRUE(cuda_.UnregisterHost(host_.data()).ok());
  EXPECT_EQ(LiveNow().registrations, 0U);
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
}

TEST_F(HostRegistration, ACopyThatCrossesABorderBecomesTwo) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
  const DeviceStream stream = NewStream();
  std::byte* const device = NewMemory(kBytes);
  ASSERT_TRUE(cuda_.CopyToDevice(stream, device, host_.data(), kBytes).ok());
  EXPECT_EQ(std::memcmp(device, host_.data(), kBytes), 0);
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyAsync"), 4);
  EXPECT_EQ(cuda_.Counters().copies, 1U);
  EXPECT_EQ(cuda_.Counters().copied_bytes, kBytes);
}

TEST_F(HostRegistration, ACopyBackAcrossABorderBecomesTwo) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
  const DeviceStream stream = NewStream();
  std::byte* const device = NewMemory(kBytes);
  ASSERT_TRUE(cuda_.Fill(stream, device, std::byte{0x5A}, kBytes).ok());
  ASSERT_TRUE(cuda_.CopyToHost(stream, host_.data(), device, kBytes).ok());
  EXPECT_EQ(std::vector<std::byte>(host_.data(), host_.data() + kBytes),
            std::vector<std::byte>(kBytes, std::byte{0x5A}));
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyAsync"), 4);
}

TEST_F(HostRegistration, APieceOfABatchThatCrossesABorderBecomesTwo) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), kBytes).ok());
  const DeviceStream stream = NewStream();
  std::byte* const device = NewMemory(2 * kBefore + 100);
  const std::vector<CopyPiece> pieces = {{device, host_.data(), 2 * kBefore},
                                         {device + 2 * kBefore, host_.data() + kBefore, 100}};
  ASSERT_TRUE(cuda_.CopyBatchToDevice(stream, pieces).ok());
  EXPECT_EQ(std::memcmp(device, host_.data(), 2 * kBefore), 0);
  EXPECT_EQ(std::memcmp(device + 2 * kBefore, host_.data() + kBefore, 100), 0);
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyBatchAsync"), 1);
  EXPECT_EQ(cuda_.Counters().copies, 2U);
}

}  // namespace
}  // namespace ringfeed
