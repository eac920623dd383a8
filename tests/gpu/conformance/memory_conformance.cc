// Device memory and registered host memory.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

constexpr std::size_t kPage = 4096;

TEST_P(BackendConformance, InfoSaysWhatADeviceIs) {
  for (int device = 0; device < backend().DeviceCount(); ++device) {
    DeviceInfo info;
    ASSERT_TRUE(Ok(backend().Info(device, &info)));
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory_bytes, 0u);
    // Of a device that nothing uses yet it may not be known.
    EXPECT_GE(info.free_bytes, device == 0 ? 1u : 0u);
    EXPECT_LE(info.free_bytes, info.memory_bytes);
    EXPECT_GE(info.copy_engines, 1);
    EXPECT_GE(info.numa_node, -1);
  }
}

TEST_P(BackendConformance, FreeMemoryIsWhatIsNotAllocated) {
  if (GetParam().hardware) GTEST_SKIP() << "others allocate on the device too";
  DeviceInfo before;
  ASSERT_TRUE(Ok(backend().Info(0, &before)));
  std::byte* data = NewDevice(std::size_t{1} << 20);
  DeviceInfo with;
  ASSERT_TRUE(Ok(backend().Info(0, &with)));
  EXPECT_LE(with.free_bytes + (std::size_t{1} << 20), before.free_bytes);
  Free(data);
  DeviceInfo behind;
  ASSERT_TRUE(Ok(backend().Info(0, &behind)));
  EXPECT_EQ(behind.free_bytes, before.free_bytes);
}

TEST_P(BackendConformance, AllocationsStandOnBoundariesAndApart) {
  struct Piece {
    std::byte* data;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  for (const std::size_t bytes : {1u, 2u, 255u, 256u, 257u, 1000u, 4095u, 65537u, 1u, 3u}) {
    pieces.push_back({NewDevice(bytes), bytes});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces.back().data) % 256, 0u) << bytes;
  }
  std::sort(pieces.begin(), pieces.end(), [](auto a, auto b) { return a.data < b.data; });
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    EXPECT_LE(pieces[i - 1].data + pieces[i - 1].bytes, pieces[i].data);
  }
}

TEST_P(BackendConformance, AllocationsKeepTheirOwnBytes) {
  const DeviceStream stream = NewStream();
  std::vector<std::byte*> pieces;
  for (std::size_t i = 0; i < 20; ++i) {
    pieces.push_back(NewDevice(777 + i));
    ASSERT_TRUE(Ok(backend().Fill(stream, pieces[i], static_cast<std::byte>(i), 777 + i)));
  }
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(AreAll(ReadBack(stream, pieces[i], 777 + i), static_cast<std::byte>(i))) << i;
  }
}

TEST_P(BackendConformance, MemoryThatIsGivenBackCanBeHadAgain) {
  DeviceInfo info;
  ASSERT_TRUE(Ok(backend().Info(0, &info)));
  for (int round = 0; round < 8; ++round) Free(NewDevice(info.free_bytes / 4));
}

TEST_P(BackendConformance, MoreThanThereIsIsRefusedAndTheDeviceStaysUsable) {
  DeviceInfo info;
  ASSERT_TRUE(Ok(backend().Info(0, &info)));
  std::byte* data = nullptr;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted,
                        backend().AllocDevice(0, info.memory_bytes + 1, &data)));
  EXPECT_EQ(data, nullptr);
  EXPECT_TRUE(Ok(backend().DeviceStatus(0)));
  const DeviceStream stream = NewStream();
  std::byte* small = NewDevice(1000);
  ASSERT_TRUE(Ok(backend().Fill(stream, small, std::byte{7}, 1000)));
  EXPECT_TRUE(AreAll(ReadBack(stream, small, 1000), std::byte{7}));
}

TEST_P(BackendConformance, AFullDeviceTakesMoreOnceSomeIsGivenBack) {
  DeviceInfo info;
  ASSERT_TRUE(Ok(backend().Info(0, &info)));
  const std::size_t quarter = info.free_bytes / 4;
  std::vector<std::byte*> held;
  Status status;
  for (int i = 0; i < 8 && status.ok(); ++i) {
    std::byte* data = nullptr;
    status = backend().AllocDevice(0, quarter, &data);
    if (status.ok()) held.push_back(data);
  }
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, status));
  ASSERT_GE(held.size(), 3u);
  EXPECT_TRUE(Ok(backend().FreeDevice(0, held.back())));
  EXPECT_TRUE(Ok(backend().AllocDevice(0, quarter, &held.back())));
  for (std::byte* data : held) EXPECT_TRUE(Ok(backend().FreeDevice(0, data)));
}

TEST_P(BackendConformance, DevicesRunOutOfMemoryOnTheirOwn) {
  if (!HasDevices(2)) GTEST_SKIP() << "there is one device";
  DeviceInfo info;
  ASSERT_TRUE(Ok(backend().Info(0, &info)));
  const std::size_t most = info.free_bytes / 4 * 3;
  NewDevice(most);
  std::byte* data = nullptr;
  EXPECT_TRUE(FailsWith(StatusCode::kResourceExhausted, backend().AllocDevice(0, most, &data)));
  NewDevice(1000, 1);
}

// Some devices wait when they free, others do not: nothing may rely on either.
TEST_P(BackendConformance, FreeingMemoryLeavesTheDevicesOtherWorkAlone) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  std::byte* kept = NewDevice(1000);
  std::byte* freed = NewDevice(1000);
  ASSERT_TRUE(Ok(backend().Fill(stream, freed, std::byte{1}, 1000)));
  Finish(stream, event);
  ASSERT_TRUE(Ok(backend().Busy(stream, 2'000'000)));
  ASSERT_TRUE(Ok(backend().Fill(stream, kept, std::byte{9}, 1000)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  bool before = false;
  ASSERT_TRUE(Ok(backend().Query(event, &before)));
  const std::int64_t before_ns = backend().NowNanos();
  Free(freed);
  bool after = false;
  ASSERT_TRUE(Ok(backend().Query(event, &after)));
  if (GetParam().virtual_time) {
    EXPECT_EQ(after, before) << "freeing ran what is enqueued";
    EXPECT_EQ(backend().NowNanos(), before_ns);
  }
  EXPECT_TRUE(AreAll(ReadBack(stream, kept, 1000), std::byte{9}));
}

TEST_P(BackendConformance, FreeingWhatIsNotAllocatedIsRefused) {
  MeanWrongUse();
  std::byte* data = NewDevice(1000);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, backend().FreeDevice(0, data + 256)));
  const DeviceStream stream = NewStream();
  ASSERT_TRUE(Ok(backend().Fill(stream, data, std::byte{3}, 1000)));
  EXPECT_TRUE(AreAll(ReadBack(stream, data, 1000), std::byte{3}));
}

// Registration.

TEST_P(BackendConformance, RegisteredRangesNeedNotStandOnPages) {
  AlignedBuffer buffer(16 * kPage);
  std::byte* data = buffer.data() + 13;
  const std::size_t bytes = 9 * kPage + 1001;
  for (std::size_t i = 0; i < bytes; ++i) data[i] = PatternByte(i, 5);
  ASSERT_TRUE(Ok(backend().RegisterHost(data, bytes)));
  const DeviceStream stream = NewStream();
  std::byte* to = NewDevice(bytes);
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, to, data, bytes)));
  EXPECT_TRUE(IsPattern(ReadBack(stream, to, bytes), 0, 5));
  EXPECT_TRUE(Ok(backend().UnregisterHost(data)));
}

TEST_P(BackendConformance, ManyRangesAreRegisteredAtOnce) {
  constexpr std::size_t kRanges = 64;
  const DeviceStream stream = NewStream();
  std::byte* to = NewDevice(kRanges * kPage);
  for (std::size_t i = 0; i < kRanges; ++i) {
    const std::span<std::byte> from = NewHost(kPage, i);
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, to + i * kPage, from.data(), kPage)));
  }
  const std::vector<std::byte> all = ReadBack(stream, to, kRanges * kPage);
  for (std::size_t i = 0; i < kRanges; ++i) {
    EXPECT_TRUE(IsPattern(std::span(all).subspan(i * kPage, kPage), 0, i)) << i;
  }
}

TEST_P(BackendConformance, OverlappingRegistrationsAreRefusedAndTheFirstStands) {
  MeanWrongUse();
  AlignedBuffer buffer(16 * kPage);
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = PatternByte(i, 6);
  std::byte* data = buffer.data() + 4 * kPage;
  ASSERT_TRUE(Ok(backend().RegisterHost(data, 8 * kPage)));
  const auto refused = [&](std::size_t offset, std::size_t bytes) {
    return FailsWith(StatusCode::kInvalidArgument,
                     backend().RegisterHost(buffer.data() + offset, bytes));
  };
  EXPECT_TRUE(refused(4 * kPage, 8 * kPage)) << "the same";
  EXPECT_TRUE(refused(6 * kPage, kPage)) << "within";
  EXPECT_TRUE(refused(3 * kPage, 2 * kPage)) << "over the start";
  EXPECT_TRUE(refused(11 * kPage, 2 * kPage)) << "over the end";
  const DeviceStream stream = NewStream();
  std::byte* to = NewDevice(8 * kPage);
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, to, data, 8 * kPage)));
  EXPECT_TRUE(IsPattern(ReadBack(stream, to, 8 * kPage), 4 * kPage, 6));
  EXPECT_TRUE(Ok(backend().UnregisterHost(data)));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, backend().UnregisterHost(data))) << "twice";
}

TEST_P(BackendConformance, NeighbouringRangesAreRegisteredApart) {
  AlignedBuffer buffer(4 * kPage, std::byte{9});
  ASSERT_TRUE(Ok(backend().RegisterHost(buffer.data(), 2 * kPage)));
  ASSERT_TRUE(Ok(backend().RegisterHost(buffer.data() + 2 * kPage, 2 * kPage)));
  EXPECT_TRUE(Ok(backend().UnregisterHost(buffer.data())));
  const DeviceStream stream = NewStream();
  std::byte* to = NewDevice(2 * kPage);
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, to, buffer.data() + 2 * kPage, 2 * kPage)));
  EXPECT_TRUE(AreAll(ReadBack(stream, to, 2 * kPage), std::byte{9}));
  EXPECT_TRUE(Ok(backend().UnregisterHost(buffer.data() + 2 * kPage)));
}

TEST_P(BackendConformance, OnlyTheStartOfARegisteredRangeUnregistersIt) {
  MeanWrongUse();
  AlignedBuffer buffer(4 * kPage);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, backend().UnregisterHost(buffer.data())));
  ASSERT_TRUE(Ok(backend().RegisterHost(buffer.data(), 4 * kPage)));
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, backend().UnregisterHost(buffer.data() + kPage)));
  EXPECT_TRUE(Ok(backend().UnregisterHost(buffer.data())));
}

TEST_P(BackendConformance, ARangeIsRegisteredAgainAndAgain) {
  AlignedBuffer buffer(4 * kPage);
  const DeviceStream stream = NewStream();
  std::byte* to = NewDevice(4 * kPage);
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = PatternByte(i, round);
    ASSERT_TRUE(Ok(backend().RegisterHost(buffer.data(), buffer.size())));
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, to, buffer.data(), buffer.size())));
    EXPECT_TRUE(IsPattern(ReadBack(stream, to, buffer.size()), 0, round)) << round;
    ASSERT_TRUE(Ok(backend().UnregisterHost(buffer.data())));
  }
}

TEST_P(UnregisteredConformance, CopiesFromUnregisteredMemoryArrive) {
  const DeviceStream stream = NewStream();
  for (const std::size_t bytes : {1u, 1000u, 65537u, 1048579u}) {
    std::vector<std::byte> from(bytes);
    for (std::size_t i = 0; i < bytes; ++i) from[i] = PatternByte(i, bytes);
    std::byte* to = NewDevice(bytes);
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, to, from.data(), bytes)));
    EXPECT_TRUE(IsPattern(ReadBack(stream, to, bytes), 0, bytes)) << bytes;
  }
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(UnregisteredConformance);

}  // namespace ringfeed
