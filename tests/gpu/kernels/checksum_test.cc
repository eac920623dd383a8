#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/kernels/kernel_math.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

std::vector<std::byte> Bytes(std::size_t count) {
  std::vector<std::byte> bytes;
  std::uint32_t state = 12'345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1'664'525 + 1'013'904'223;
    bytes.push_back(static_cast<std::byte>(state >> 24));
  }
  return bytes;
}

std::uint64_t ChecksumOf(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = 0xEEEEEEEEEEEEEEEE;
  const Checksum kernel{.input = data, .bytes = bytes, .output = &sum};
  const Status status = CheckKernel(kernel);
  EXPECT_TRUE(status.ok()) << status.ToString();
  RunKernelOnHost(kernel);
  return sum;
}

/// By the formula's letters: byte for byte, each as its share of its word's product.
std::uint64_t SlowChecksum(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = bytes;
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint64_t factor = 0x9E3779B97F4A7C15U + i / 8 + i / 8;
    if (i % 8 == 0) sum += factor;
    std::uint64_t share = std::to_integer<std::uint64_t>(data[i]) * factor;
    for (std::size_t shifts = i % 8; shifts > 0; --shifts) share *= 256;
    sum += share;
  }
  return sum;
}

TEST(Checksum, FollowsTheFormulaWhateverTheTail) {
  const std::vector<std::byte> bytes = Bytes(1'100);
  for (const std::size_t whole : {0U, 8U, 64U, 1'000U}) {
    for (std::size_t tail = 0; tail <= 16; ++tail) {
      EXPECT_EQ(ChecksumOf(bytes.data(), whole + tail), SlowChecksum(bytes.data(), whole + tail))
          << whole + tail << " bytes";
    }
  }
}

TEST(Checksum, InputMayStandAnywhere) {
  const std::vector<std::byte> bytes = Bytes(200);
  for (std::size_t begin = 0; begin < 16; ++begin) {
    EXPECT_EQ(ChecksumOf(bytes.data() + begin, 123), SlowChecksum(bytes.data() + begin, 123));
  }
}

TEST(Checksum, OfNothingIsZero) { EXPECT_EQ(ChecksumOf(nullptr, 0), 0U); }

TEST(Checksum, OfOneZeroIsKnown) {
  const std::byte zero{0};
  EXPECT_EQ(ChecksumOf(&zero, 1), 0x9E3779B97F4A7C15U + 1);
}

TEST(Checksum, TellsTailsOfZerosApart) {
  const std::vector<std::byte> zeros(64);
  std::vector<std::uint64_t> sums;
  for (std::size_t bytes = 0; bytes <= zeros.size(); ++bytes) {
    const std::uint64_t sum = ChecksumOf(zeros.data(), bytes);
    EXPECT_EQ(std::count(sums.begin(), sums.end(), sum), 0) << bytes << " bytes";
    sums.push_back(sum);
  }
}

TEST(Checksum, TellsExchangedWordsApart) {
  std::vector<std::byte> bytes = Bytes(64);
  const std::uint64_t before = ChecksumOf(bytes.data(), bytes.size());
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 24);
  EXPECT_NE(ChecksumOf(bytes.data(), bytes.size()), before);
}

TEST(Checksum, PartsAddUpInAnyOrder) {
  const std::vector<std::byte> bytes = Bytes(8 * 101 + 5);
  const std::uint64_t whole = ChecksumOf(bytes.data(), bytes.size());
  for (const std::size_t workers : {1U, 2U, 3U, 7U, 64U, 200U}) {
    std::vector<std::uint64_t> sums(workers);
    for (std::size_t word = 0; word < 102; ++word) {  // as a device's threads stride
      const std::uint64_t there = word == 101 ? 5 : 8;
      sums[word % workers] += ChecksumTerm(ChecksumWord(bytes.data() + 8 * word, there), word);
    }
    std::uint64_t sum = 0;
    for (auto part = sums.rbegin(); part != sums.rend(); ++part) sum += *part;
    EXPECT_EQ(sum + bytes.size(), whole) << workers << " workers";
  }
}

}  // namespace
}  // namespace ringfeed
