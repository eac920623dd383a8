// The order within a stream, streams beside each other, and what becomes of a stream's work.

#include <array>
#include <cstdint>
#include <vector>

#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

constexpr std::byte kBefore{0xA7};

TEST_P(BackendConformance, AStreamsWorkRunsInItsOrder) {
  constexpr std::size_t kBytes = 10'000;
  const DeviceStream stream = NewStream();
  const std::span<std::byte> first = NewHost(kBytes, 1);
  const std::span<std::byte> second = NewHost(kBytes, 2);
  std::byte* device = NewDevice(kBytes);
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, first.data(), kBytes)));
    ASSERT_TRUE(Ok(backend().Fill(stream, device + 100, kBefore, 5000)));
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device + 3000, &second[3000], 6000)));
    ASSERT_TRUE(Ok(backend().Fill(stream, device + 8000, std::byte{0x11}, 10)));
  }
  const std::vector<std::byte> all = ReadBack(stream, device, kBytes);
  EXPECT_TRUE(IsPattern(std::span(all).first(100), 0, 1));
  EXPECT_TRUE(AreAll(std::span(all).subspan(100, 2900), kBefore));
  EXPECT_TRUE(IsPattern(std::span(all).subspan(3000, 5000), 3000, 2));
  EXPECT_TRUE(AreAll(std::span(all).subspan(8000, 10), std::byte{0x11}));
  EXPECT_TRUE(IsPattern(std::span(all).subspan(8010, 990), 8010, 2));
  EXPECT_TRUE(IsPattern(std::span(all).subspan(9000), 9000, 1));
}

TEST_P(BackendConformance, ManyStreamsWorkOnTheirOwn) {
  constexpr std::size_t kStreams = 32;
  constexpr std::size_t kBytes = 4099;
  const std::span<std::byte> to = NewHost(kStreams * kBytes, kBefore);
  std::vector<DeviceStream> streams;
  std::vector<std::span<std::byte>> from;
  std::vector<std::byte*> device;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.push_back(NewStream(0, i % 2 == 0 ? StreamPriority::kNormal : StreamPriority::kHigh));
    from.push_back(NewHost(kBytes, i));
    device.push_back(NewDevice(kBytes));
  }
  for (std::size_t round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      ASSERT_TRUE(Ok(backend().Fill(streams[i], device[i], kBefore, kBytes)));
      ASSERT_TRUE(Ok(backend().CopyToDevice(streams[i], device[i], from[i].data(), kBytes)));
      ASSERT_TRUE(Ok(backend().CopyToHost(streams[i], &to[i * kBytes], device[i], kBytes)));
    }
  }
  for (std::size_t i = kStreams; i-- > 0;) {
    ASSERT_TRUE(Ok(backend().SyncStream(streams[i])));
    EXPECT_TRUE(IsPattern(HostRead(to.subspan(i * kBytes, kBytes)), 0, i)) << i;
  }
}

TEST_P(BackendConformance, AStreamTakesMuchMoreWorkThanHasRun) {
  constexpr std::size_t kPieces = 3000;
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(kPieces * 8, 3);
  std::byte* device = NewDevice(kPieces * 8);
  ASSERT_TRUE(Ok(backend().Busy(stream, 2'000'000)));
  for (std::size_t i = 0; i < kPieces; ++i) {
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device + i * 8, from.data() + i * 8, 8)));
  }
  EXPECT_TRUE(IsPattern(ReadBack(stream, device, kPieces * 8), 0, 3));
}

TEST_P(BackendConformance, TheWorkOfADestroyedStreamStillRuns) {
  constexpr std::size_t kBytes = 5000;
  const std::span<std::byte> from = NewHost(kBytes, 4);
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewDevice(kBytes);
  const DeviceEvent event = NewEvent();
  const DeviceStream stream = NewStream();
  ASSERT_TRUE(Ok(backend().Busy(stream, 2'000'000)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  Destroy(stream);
  WaitFor(event);
  EXPECT_TRUE(IsPattern(HostRead(to), 0, 4));
}

TEST_P(BackendConformance, OthersWaitForTheWorkOfADestroyedStream) {
  constexpr std::size_t kBytes = 5000;
  const std::span<std::byte> from = NewHost(kBytes, 5);
  std::byte* device = NewDevice(kBytes);
  const DeviceEvent event = NewEvent();
  const DeviceStream gone = NewStream();
  const DeviceStream stream = NewStream();
  ASSERT_TRUE(Ok(backend().Busy(gone, 2'000'000)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(gone, device, from.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, gone)));
  Destroy(gone);
  ASSERT_TRUE(Ok(backend().StreamWait(stream, event)));
  EXPECT_TRUE(IsPattern(ReadBack(stream, device, kBytes), 0, 5));
}

TEST_P(BackendConformance, StreamsComeAndGo) {
  constexpr std::size_t kBytes = 1000;
  const std::span<std::byte> from = NewHost(kBytes, 6);
  std::byte* device = NewDevice(kBytes);
  for (int round = 0; round < 100; ++round) {
    const DeviceStream stream = NewStream();
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), kBytes)));
    ASSERT_TRUE(Ok(backend().SyncStream(stream)));
    Destroy(stream);
  }
  EXPECT_TRUE(IsPattern(ReadBack(NewStream(), device, kBytes), 0, 6));
}

TEST_P(BackendConformance, SyncOfAnIdleStreamReturns) {
  const DeviceStream stream = NewStream();
  EXPECT_TRUE(Ok(backend().SyncStream(stream)));
  EXPECT_TRUE(Ok(backend().SyncStream(stream)));
}

TEST_P(BackendConformance, DevicesWorkOnTheirOwnMemory) {
  if (!HasDevices(2)) GTEST_SKIP() << "there is one device";
  constexpr std::size_t kBytes = 70'001;
  std::array<DeviceStream, 2> streams;
  std::array<std::byte*, 2> device{};
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(i);
    streams[at] = NewStream(i);
    device[at] = NewDevice(kBytes, i);
    const std::span<std::byte> from = NewHost(kBytes, at);
    ASSERT_TRUE(Ok(backend().CopyToDevice(streams[at], device[at], from.data(), kBytes)));
  }
  EXPECT_TRUE(IsPattern(ReadBack(streams[1], device[1], kBytes), 0, 1));
  EXPECT_TRUE(IsPattern(ReadBack(streams[0], device[0], kBytes), 0, 0));
}

TEST_P(BackendConformance, OneSourceGoesToAllDevices) {
  if (!HasDevices(2)) GTEST_SKIP() << "there is one device";
  constexpr std::size_t kBytes = 70'001;
  const std::span<std::byte> from = NewHost(kBytes, 7);
  for (int i = 0; i < backend().DeviceCount(); ++i) {
    const DeviceStream stream = NewStream(i);
    std::byte* device = NewDevice(kBytes, i);
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), kBytes)));
    EXPECT_TRUE(IsPattern(ReadBack(stream, device, kBytes), 0, 7)) << i;
  }
}

}  // namespace
}  // namespace ringfeed
