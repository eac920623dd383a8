#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "gpu/piece_chunks.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

std::vector<std::byte> PatternOf(std::size_t bytes) {
  std::vector<std::byte> pattern(bytes);
  for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * 167 + i / 251);
  return pattern;
}

std::vector<std::uint32_t> SumsOf(const std::vector<std::byte>& data,
                                  const std::vector<SummedPiece>& pieces, std::size_t texts) {
  std::vector<std::uint32_t> sums(texts, 1);
  const SumPieces kernel{data.data(),   data.size(), pieces.data(),
                         pieces.size(), sums.data(), texts};
  EXPECT_TRUE(CheckKernel(kernel).ok()) << CheckKernel(kernel).ToString();
  RunKernelOnHost(kernel);
  return sums;
}

TEST(SumPiecesTest, TheTwinTakesWhatStandsInTheInput) {
  const std::vector<std::byte> data = PatternOf(100);
  const std::vector<SummedPiece> pieces{
      {0, 0, 100, 0}, {90, 0, 20, 1}, {100, 0, 5, 2}, {~std::uint64_t{0}, 0, 9, 3}, {0, 0, 9, 5}};
  const std::vector<std::uint32_t> sums = SumsOf(data, pieces, 5);
  EXPECT_EQ(sums[0], Crc32c(data));
  EXPECT_EQ(sums[1], Crc32c(std::span(data).subspan(90)));
  EXPECT_EQ(sums[2], 0U);
  EXPECT_EQ(sums[3], 0U);
  EXPECT_EQ(sums[4], 0U) << "of no piece";
}

TEST(SumPiecesTest, PiecesOfATextGiveItsSumInAnyOrder) {
  const std::vector<std::byte> data = PatternOf(70'000);
  const std::vector<SummedPiece> pieces{
      {60'000, 0, 10'000, 0}, {0, 69'999, 1, 0}, {1, 10'000, 59'999, 0}};
  EXPECT_EQ(SumsOf(data, pieces, 1)[0], Crc32c(data));
}

TEST(SumPiecesTest, SharesOfSeveralLaunchesGiveTheSumByExclusiveOr) {
  const std::vector<std::byte> data = PatternOf(70'000);
  const std::uint32_t first = SumsOf(data, {{0, 69'000, 1000, 0}}, 1)[0];
  const std::uint32_t rest = SumsOf(data, {{1000, 0, 69'000, 0}}, 1)[0];
  EXPECT_EQ(first ^ rest, Crc32c(data));
}

TEST(SumPiecesTest, ChunksAreAllOfAPieceInItsOrder) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, kChunkBytes - 1,
                                    kChunkBytes, kChunkBytes + 1, 9 * kChunkBytes + 7}) {
    std::uint64_t done = 0;
    ForEachChunk(bytes, [&](std::uint64_t begin, std::uint64_t chunk) {
      EXPECT_EQ(begin, done);
      EXPECT_GT(chunk, 0U);
      EXPECT_LE(chunk, kChunkBytes);
      done += chunk;
    });
    EXPECT_EQ(done, bytes);
  }
}

TEST(SumPiecesTest, RefusesWhatMakesNoSense) {
  alignas(8) std::array<std::byte, 64> memory{};
  const auto* const pieces = reinterpret_cast<const SummedPiece*>(memory.data() + 16);
  auto* const output = reinterpret_cast<std::uint32_t*>(memory.data() + 40);
  EXPECT_TRUE(CheckKernel(SumPieces{memory.data(), 16, pieces, 1, output, 1}).ok());
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 48, pieces, 1, output, 1}).ok());
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 16, nullptr, 1, output, 1}).ok());
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 16, pieces, ~0ULL / 8, output, 1}).ok());
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 16, pieces, 1, output, ~0ULL / 4}).ok());
  auto* const off = reinterpret_cast<std::uint32_t*>(memory.data() + 42);
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 16, pieces, 1, off, 1}).ok());
}

}  // namespace
}  // namespace ringfeed
