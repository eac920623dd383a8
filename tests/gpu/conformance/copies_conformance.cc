// Copies to a device, whole, in pieces and in batches, back to the host, and Fill.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

constexpr std::byte kBefore{0xA7};
constexpr std::size_t kMiB = std::size_t{1} << 20;

constexpr std::array<std::size_t, 22> kSizes = {
    1,   2,   3,    7,    8,    9,     15,    16,    17,   63,       64,
    255, 256, 4095, 4096, 4097, 65535, 65536, 65537, kMiB, kMiB + 3, 3 * kMiB + 1};

TEST_P(BackendConformance, CopiesOfAnySizeArriveAndTouchNothingElse) {
  constexpr std::size_t kMargin = 64;
  const std::size_t most = kSizes.back();
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(most, 1);
  std::byte* device = NewDevice(most + 2 * kMargin);
  for (const std::size_t bytes : kSizes) {
    ASSERT_TRUE(Ok(backend().Fill(stream, device, kBefore, bytes + 2 * kMargin)));
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device + kMargin, from.data(), bytes)));
    const std::vector<std::byte> all = ReadBack(stream, device, bytes + 2 * kMargin);
    EXPECT_TRUE(AreAll(std::span(all).first(kMargin), kBefore)) << bytes;
    EXPECT_TRUE(IsPattern(std::span(all).subspan(kMargin, bytes), 0, 1)) << bytes;
    EXPECT_TRUE(AreAll(std::span(all).last(kMargin), kBefore)) << bytes;
  }
}

TEST_P(BackendConformance, CopiesStartAndEndAtAnyByte) {
  constexpr std::size_t kMost = 300;
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(kMost + 40, 2);
  std::byte* device = NewDevice(kMost + 40);
  for (const std::size_t to_offset : {0u, 1u, 3u, 7u, 8u, 13u, 16u}) {
    for (const std::size_t from_offset : {0u, 1u, 2u, 5u, 8u, 15u, 17u}) {
      for (const std::size_t bytes : {1u, 6u, 16u, 31u, 300u}) {
        ASSERT_TRUE(Ok(backend().Fill(stream, device, kBefore, kMost + 40)));
        ASSERT_TRUE(Ok(
            backend().CopyToDevice(stream, device + to_offset, from.data() + from_offset, bytes)));
        const std::vector<std::byte> all = ReadBack(stream, device, kMost + 40);
        EXPECT_TRUE(AreAll(std::span(all).first(to_offset), kBefore));
        EXPECT_TRUE(IsPattern(std::span(all).subspan(to_offset, bytes), from_offset, 2))
            << bytes << " bytes from " << from_offset << " to " << to_offset;
        EXPECT_TRUE(AreAll(std::span(all).subspan(to_offset + bytes), kBefore));
      }
    }
  }
}

TEST_P(BackendConformance, APatchworkOfCopiesMakesAWhole) {
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(kMiB, 3);
  std::byte* device = NewDevice(kMiB);
  std::mt19937_64 random(3);
  std::vector<CopyPiece> pieces;
  for (std::size_t at = 0; at < kMiB;) {
    const std::size_t bytes = std::min<std::size_t>(1 + random() % 9000, kMiB - at);
    pieces.push_back({device + at, from.data() + at, bytes});
    at += bytes;
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  for (const CopyPiece& piece : pieces) {
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, piece.to, piece.from, piece.bytes)));
  }
  EXPECT_TRUE(IsPattern(ReadBack(stream, device, kMiB), 0, 3));
}

TEST_P(BackendConformance, PiecesOfABatchArriveFromAnywhereToAnywhere) {
  const DeviceStream stream = NewStream();
  const std::array<std::span<std::byte>, 2> from = {NewHost(kMiB, 4), NewHost(kMiB, 5)};
  const std::array<std::byte*, 2> device = {NewFilledDevice(kMiB, kBefore),
                                            NewFilledDevice(kMiB, kBefore)};
  std::array<std::vector<std::byte>, 2> expected;
  for (auto& bytes : expected) bytes.assign(kMiB, kBefore);
  std::mt19937_64 random(4);
  std::vector<CopyPiece> pieces;
  for (std::size_t i = 0; i < 1000; ++i) {
    // Each piece has a kilobyte of its own in an allocation, and any place in a source.
    const std::size_t bytes = random() % 1000;
    const std::size_t to = i * 1024 + random() % (1024 - bytes);
    const std::size_t source = random() % 2;
    const std::size_t at = random() % (kMiB - bytes);
    pieces.push_back({device[i % 2] + to, from[source].data() + at, bytes});
    std::memcpy(expected[i % 2].data() + to, from[source].data() + at, bytes);
  }
  ASSERT_TRUE(Ok(backend().CopyBatchToDevice(stream, pieces)));
  EXPECT_EQ(ReadBack(stream, device[0], kMiB), expected[0]);
  EXPECT_EQ(ReadBack(stream, device[1], kMiB), expected[1]);
}

TEST_P(BackendConformance, ABatchIsOnePieceOfItsStreamsWork) {
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(8192, 6);
  std::byte* device = NewDevice(8192);
  std::vector<CopyPiece> pieces;
  for (std::size_t at = 0; at < 8192; at += 512) pieces.push_back({device + at, &from[at], 512});
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(Ok(backend().Fill(stream, device, kBefore, 8192)));
    ASSERT_TRUE(Ok(backend().CopyBatchToDevice(stream, pieces)));
    ASSERT_TRUE(Ok(backend().Fill(stream, device + 4096, kBefore, 1000)));
    const std::vector<std::byte> all = ReadBack(stream, device, 8192);
    EXPECT_TRUE(IsPattern(std::span(all).first(4096), 0, 6));
    EXPECT_TRUE(AreAll(std::span(all).subspan(4096, 1000), kBefore));
    EXPECT_TRUE(IsPattern(std::span(all).subspan(5096), 5096, 6));
  }
}

TEST_P(BackendConformance, ABatchOutlivesTheListOfItsPieces) {
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(4096, 7);
  std::byte* device = NewDevice(4096);
  ASSERT_TRUE(Ok(backend().Busy(stream, 1'000'000)));
  {
    std::vector<CopyPiece> pieces;
    for (std::size_t at = 0; at < 4096; at += 64) pieces.push_back({device + at, &from[at], 64});
    ASSERT_TRUE(Ok(backend().CopyBatchToDevice(stream, pieces)));
    std::fill(pieces.begin(), pieces.end(), CopyPiece{});
  }
  EXPECT_TRUE(IsPattern(ReadBack(stream, device, 4096), 0, 7));
}

// Neighbours that are both registered: a copy from the one into the other fails, in each direction.
TEST_P(BackendConformance, ACopyAcrossRegistrationsIsRefusedAndTheDeviceStaysUsable) {
  constexpr std::size_t kHalf = 8192;
  MeanWrongUse();
  constexpr std::size_t kOnePage = 4096;
  AlignedBuffer buffer(2 * kHalf + kOnePage, kBefore);
  // A backend may cut copies at multiples of a piece, which is a power of two: the border is at an
  // odd page, so that it is none of these.
  const bool odd = reinterpret_cast<std::uintptr_t>(buffer.data()) / kOnePage % 2 != 0;
  std::byte* const host = buffer.data() + (odd ? 0 : kOnePage);
  ASSERT_TRUE(Ok(backend().RegisterHost(host, kHalf)));
  ASSERT_TRUE(Ok(backend().RegisterHost(host + kHalf, kHalf)));
  const DeviceStream stream = NewStream();
  std::byte* device = NewFilledDevice(2 * kHalf, std::byte{1});
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                        backend().CopyToDevice(stream, device, host, 2 * kHalf)));
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument,
                        backend().CopyToHost(stream, host + 100, device, 2 * kHalf - 200)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, host, kHalf)));
  const std::vector<std::byte> all = ReadBack(stream, device, 2 * kHalf);
  EXPECT_TRUE(AreAll(std::span(all).first(kHalf), kBefore));
  EXPECT_TRUE(AreAll(std::span(all).last(kHalf), std::byte{1}));
  EXPECT_TRUE(Ok(backend().UnregisterHost(host)));
  EXPECT_TRUE(Ok(backend().UnregisterHost(host + kHalf)));
}

TEST_P(BackendConformance, NoBytesAreNoWork) {
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(4096, 8);
  std::byte* device = NewFilledDevice(4096, kBefore);
  EXPECT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), 0)));
  EXPECT_TRUE(Ok(backend().CopyToHost(stream, from.data(), device, 0)));
  EXPECT_TRUE(Ok(backend().Fill(stream, device, std::byte{1}, 0)));
  EXPECT_TRUE(Ok(backend().CopyBatchToDevice(stream, {})));
  const std::array<CopyPiece, 3> pieces = {CopyPiece{device, from.data(), 0},
                                           CopyPiece{device + 100, from.data() + 100, 1},
                                           CopyPiece{device + 200, from.data(), 0}};
  EXPECT_TRUE(Ok(backend().CopyBatchToDevice(stream, pieces)));
  const std::vector<std::byte> all = ReadBack(stream, device, 4096);
  EXPECT_TRUE(AreAll(std::span(all).first(100), kBefore));
  EXPECT_EQ(all[100], PatternByte(100, 8));
  EXPECT_TRUE(AreAll(std::span(all).subspan(101), kBefore));
  EXPECT_TRUE(IsPattern(HostRead(from), 0, 8));
}

TEST_P(BackendConformance, ResultsOfAnySizeComeBackAndTouchNothingElse) {
  constexpr std::size_t kMargin = 64;
  const std::size_t most = kSizes.back();
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(most + 1, 9);
  std::byte* device = NewDevice(most + 1);
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), most + 1)));
  const std::span<std::byte> to = NewHost(most + 2 * kMargin, kBefore);
  for (const std::size_t bytes : kSizes) {
    ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data() + kMargin, device + 1, bytes)));
    ASSERT_TRUE(Ok(backend().SyncStream(stream)));
    HostRead(to.first(bytes + 2 * kMargin));
    EXPECT_TRUE(AreAll(to.first(kMargin), kBefore)) << bytes;
    EXPECT_TRUE(IsPattern(to.subspan(kMargin, bytes), 1, 9)) << bytes;
    EXPECT_TRUE(AreAll(to.subspan(kMargin + bytes, kMargin), kBefore)) << bytes;
  }
}

TEST_P(BackendConformance, BytesSurviveManyRoundTrips) {
  constexpr std::size_t kBytes = 100'003;
  const DeviceStream stream = NewStream();
  const std::span<std::byte> first = NewHost(kBytes, 10);
  const std::span<std::byte> second = NewHost(kBytes, kBefore);
  std::byte* device = NewDevice(kBytes);
  // No wait of the host's in between: the stream's order is enough.
  for (int round = 0; round < 10; ++round) {
    const auto& [from, to] = round % 2 == 0 ? std::pair(first, second) : std::pair(second, first);
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), kBytes)));
    ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, kBytes)));
    ASSERT_TRUE(Ok(backend().Fill(stream, device, kBefore, kBytes)));
  }
  ASSERT_TRUE(Ok(backend().SyncStream(stream)));
  EXPECT_TRUE(IsPattern(HostRead(first), 0, 10));
  EXPECT_TRUE(IsPattern(HostRead(second), 0, 10));
}

TEST_P(BackendConformance, ASourceIsTheHostsAgainOnceItsCopyIsSeenDone) {
  constexpr std::size_t kBytes = 20'000;
  constexpr std::size_t kRounds = 40;
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> from = NewHost(kBytes, kBefore);
  std::byte* device = NewDevice(kRounds * kBytes);
  for (std::size_t round = 0; round < kRounds; ++round) {
    backend().NoteHostWrite(from.data(), kBytes, "a refill");
    for (std::size_t i = 0; i < kBytes; ++i) from[i] = PatternByte(i, round);
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device + round * kBytes, from.data(), kBytes)));
    Finish(stream, event);
  }
  const std::vector<std::byte> all = ReadBack(stream, device, kRounds * kBytes);
  for (std::size_t round = 0; round < kRounds; ++round) {
    EXPECT_TRUE(IsPattern(std::span(all).subspan(round * kBytes, kBytes), 0, round)) << round;
  }
}

TEST_P(BackendConformance, CopiesRunBothWaysAtOnce) {
  const DeviceStream up = NewStream();
  const DeviceStream down = NewStream();
  const std::span<std::byte> from = NewHost(kMiB, 11);
  const std::span<std::byte> to = NewHost(kMiB, kBefore);
  std::byte* goes_up = NewDevice(kMiB);
  std::byte* comes_down = NewFilledDevice(kMiB, std::byte{0x3C});
  for (std::size_t at = 0; at < kMiB; at += kMiB / 8) {
    ASSERT_TRUE(Ok(backend().CopyToDevice(up, goes_up + at, from.data() + at, kMiB / 8)));
    ASSERT_TRUE(Ok(backend().CopyToHost(down, to.data() + at, comes_down + at, kMiB / 8)));
  }
  ASSERT_TRUE(Ok(backend().SyncStream(down)));
  EXPECT_TRUE(AreAll(HostRead(to), std::byte{0x3C}));
  EXPECT_TRUE(IsPattern(ReadBack(up, goes_up, kMiB), 0, 11));
}

TEST_P(BackendConformance, FillSetsItsBytesAndNothingElse) {
  constexpr std::size_t kBytes = 5000;
  const DeviceStream stream = NewStream();
  std::byte* device = NewDevice(kBytes);
  for (const std::size_t offset : {0u, 1u, 5u, 256u}) {
    for (const std::size_t bytes : {1u, 3u, 4u, 17u, 4096u, 4100u}) {
      ASSERT_TRUE(Ok(backend().Fill(stream, device, kBefore, kBytes)));
      ASSERT_TRUE(Ok(backend().Fill(stream, device + offset, std::byte{0xFE}, bytes)));
      const std::vector<std::byte> all = ReadBack(stream, device, kBytes);
      EXPECT_TRUE(AreAll(std::span(all).first(offset), kBefore));
      EXPECT_TRUE(AreAll(std::span(all).subspan(offset, bytes), std::byte{0xFE}));
      EXPECT_TRUE(AreAll(std::span(all).subspan(offset + bytes), kBefore));
    }
  }
}

}  // namespace
}  // namespace ringfeed
