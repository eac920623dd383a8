#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "ringfeed/devices/device_kernels.h"
#include "tests/gpu/kernels/guarded_memory.h"

namespace ringfeed {
namespace {

/// Byte by byte, with a look at each.
std::vector<std::byte> GatheredSlowly(const std::vector<std::byte>& input,
                                      const std::vector<GatheredPiece>& pieces,
                                      std::size_t output_bytes) {
  std::vector<std::byte> output(output_bytes, std::byte{0xEE});
  for (const GatheredPiece& piece : pieces) {
    for (std::uint64_t i = 0; i < piece.bytes; ++i) {
      const bool inside = piece.from < input.size() && i < input.size() - piece.from &&
                          piece.to < output.size() && i < output.size() - piece.to;
      if (inside) output[piece.to + i] = input[piece.from + i];
    }
  }
  return output;
}

void ExpectSameAsSlow(const std::vector<std::byte>& input, const std::vector<GatheredPiece>& pieces,
                      std::size_t output_bytes) {
  GuardedMemory guarded_input(input.size(), GuardedMemory::Edge::kEnd);
  std::copy(input.begin(), input.end(), guarded_input.data());
  guarded_input.MakeReadOnly();
  GuardedMemory output(output_bytes, GuardedMemory::Edge::kEnd);
  std::fill_n(output.data(), output_bytes, std::byte{0xEE});
  const GatherPieces kernel{guarded_input.data(), input.size(),  pieces.data(),
                            pieces.size(),        output.data(), output_bytes};
  ASSERT_TRUE(CheckKernel(kernel).ok()) << CheckKernel(kernel).ToString();
  RunKernelOnHost(kernel);
  const std::vector<std::byte> expected = GatheredSlowly(input, pieces, output_bytes);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), output.data()));
}

std::vector<std::byte> SomeBytes(std::size_t bytes) {
  std::vector<std::byte> some(bytes);
  for (std::size_t i = 0; i < bytes; ++i) some[i] = static_cast<std::byte>(i * 131 + 7);
  return some;
}

TEST(GatherPiecesTest, PiecesComeToTheirPlacesWhateverTheirOrder) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<GatheredPiece> pieces;
    std::uint64_t to = random() % 9;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t bytes = random() % 300;
      pieces.push_back({random() % 4000, to, bytes});
      to += bytes + random() % 5;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    ExpectSameAsSlow(SomeBytes(4300), pieces, to);
  }
}

TEST(GatherPiecesTest, WhatStandsBeyondIsNeitherReadNorWritten) {
  constexpr std::uint64_t kEndless = ~std::uint64_t{0};
  ExpectSameAsSlow(SomeBytes(100),
                   {{90, 0, 20}, {kEndless, 20, 5}, {0, 95, 10}, {0, kEndless, 5}, {100, 30, 1}},
                   100);
  ExpectSameAsSlow({}, {{0, 0, 4}}, 8);
  ExpectSameAsSlow(SomeBytes(8), {{0, 0, 4}}, 0);
}

TEST(GatherPiecesTest, PointersThatMakeNoSenseAreRefused) {
  const std::vector<std::byte> input = SomeBytes(64);
  std::vector<std::byte> output(64);
  const std::vector<GatheredPiece> pieces = {{0, 0, 8}};
  const GatherPieces good{input.data(), 64, pieces.data(), 1, output.data(), 64};
  EXPECT_TRUE(CheckKernel(good).ok());
  GatherPieces bad = good;
  bad.pieces = nullptr;
  EXPECT_NE(CheckKernel(bad).message().find("pieces is null"), std::string::npos);
  bad = good;
  bad.input = output.data();
  EXPECT_NE(CheckKernel(bad).message().find("overlap"), std::string::npos);
  bad = good;
  bad.count = ~std::uint64_t{0} / 8;
  EXPECT_NE(CheckKernel(bad).message().find("count overflows"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed
