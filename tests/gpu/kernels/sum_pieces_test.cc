#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "gpu/kernels/kernel_math.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

std::vector<std::byte> PatternOf(std::size_t bytes) {
  std::vector<std::byte> pattern(bytes);
  for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * 167 + i / 251);
  return pattern;
}

/// What the threads of a device do together, one after the other.
std::uint32_t SumByThreads(std::span<const std::byte> data, std::uint64_t threads) {
  constexpr Crc32cPowers kPowers = AllCrc32cPowers();
  const SummedParts parts = SummedParts::Of(data.size(), threads);
  std::vector<std::uint32_t> sums;
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    const SummedParts::Part part = parts[thread];
    std::uint32_t sum = part.before();
    for (std::uint64_t at = part.begin; at < part.end; ++at) {
      sum = Crc32cOfByte((sum ^ static_cast<std::uint32_t>(data[at])) & 0xFFU) ^ sum >> 8;
    }
    sums.push_back(sum);
  }
  unsigned log2_bytes = parts.log2_each;
  for (; sums.size() > 1; ++log2_bytes) {
    for (std::size_t i = 0; i < sums.size() / 2; ++i) {
      sums[i] = JoinCrc32c(sums[2 * i], sums[2 * i + 1], kPowers, log2_bytes);
    }
    sums.resize(sums.size() / 2);
  }
  return ~sums.front();
}

TEST(SumPiecesTest, AnyNumberOfThreadsGivesTheCrcOfAll) {
  for (const std::size_t bytes : {1u, 3u, 31u, 32u, 255u, 256u, 257u, 1000u, 110'003u}) {
    const std::vector<std::byte> data = PatternOf(bytes);
    for (const std::uint64_t threads : {1u, 2u, 8u, 32u, 512u}) {
      EXPECT_EQ(SumByThreads(data, threads), Crc32c(data)) << bytes << " bytes, " << threads;
    }
  }
}

TEST(SumPiecesTest, PartsOfThreadsAreAllOfThePieceInItsOrder) {
  for (const std::uint64_t bytes : {0u, 1u, 255u, 256u, 1000u, 65'537u}) {
    std::uint64_t at = 0;
    for (std::uint64_t thread = 0; thread < 256; ++thread) {
      const SummedParts::Part part = SummedParts::Of(bytes, 256)[thread];
      EXPECT_EQ(part.begin, at);
      EXPECT_LE(part.begin, part.end);
      at = part.end;
    }
    EXPECT_EQ(at, bytes);
  }
}

TEST(SumPiecesTest, TheTwinTakesWhatStandsInTheInput) {
  const std::vector<std::byte> data = PatternOf(100);
  const std::array<SummedPiece, 4> pieces{{{0, 100}, {90, 20}, {100, 5}, {~std::uint64_t{0}, 9}}};
  std::array<std::uint32_t, 4> sums{1, 1, 1, 1};
  const SumPieces kernel{data.data(), data.size(), pieces.data(), pieces.size(), sums.data()};
  ASSERT_TRUE(CheckKernel(kernel).ok());
  RunKernelOnHost(kernel);
  EXPECT_EQ(sums[0], Crc32c(data));
  EXPECT_EQ(sums[1], Crc32c(std::span(data).subspan(90)));
  EXPECT_EQ(sums[2], 0U);
  EXPECT_EQ(sums[3], 0U);
}

TEST(SumPiecesTest, RefusesWhatMakesNoSense) {
  alignas(8) std::array<std::byte, 64> memory{};
  const auto* const pieces = reinterpret_cast<const SummedPiece*>(memory.data() + 16);
  auto* const output = reinterpret_cast<std::uint32_t*>(memory.data() + 32);
  EXPECT_TRUE(CheckKernel(SumPieces{memory.data(), 16, pieces, 1, output}).ok());
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 33, pieces, 1, output}).ok());
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 16, nullptr, 1, output}).ok());
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 16, pieces, ~0ULL / 8, output}).ok());
  auto* const off = reinterpret_cast<std::uint32_t*>(memory.data() + 34);
  EXPECT_FALSE(CheckKernel(SumPieces{memory.data(), 16, pieces, 1, off}).ok());
}

}  // namespace
}  // namespace ringfeed
