#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/crc32c_math.h"

namespace ringfeed {
namespace {

// Bit by bit, as RFC 3720 defines it.
std::uint32_t SlowCrc(std::span<const std::byte> data) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : data) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
  }
  return ~crc;
}

std::vector<std::byte> RandomBytes(std::size_t size) {
  std::mt19937_64 random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32cTest, CheckValueOfTheStandard) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(digits))), 0xe3069283U);
}

TEST(Crc32cTest, EveryLengthAndAlignmentAsBitByBit) {
  const std::vector<std::byte> bytes = RandomBytes(700);
  for (std::size_t size = 0; size <= 600; ++size) {
    for (const std::size_t at : {0u, 1u, 3u, 7u, 8u, 31u, 64u}) {
      const std::span<const std::byte> piece = std::span(bytes).subspan(at, size);
      ASSERT_EQ(Crc32c(piece), SlowCrc(piece)) << size << " at " << at;
    }
  }
}

// Exactly sized blocks of memory, so that a sanitizer sees a read on either side.
TEST(Crc32cTest, EachOfManyRecordsAsAlone) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<RecordSpan> records;
  for (std::size_t size = 0; size <= 1200; ++size) memory.push_back(RandomBytes(size));
  static constexpr std::byte kNothing{};
  for (const auto& block : memory) {
    records.push_back({block.empty() ? &kNothing : block.data(), block.size()});
  }
  std::vector<std::uint32_t> crcs(records.size());
  for (const std::size_t stride : {1u, 3u, 4u, 7u, 1201u}) {
    for (std::size_t at = 0; at < records.size(); at += stride) {
      const auto some = std::span(records).subspan(at, std::min(stride, records.size() - at));
      Crc32cEach(some, crcs.data() + at);
    }
    for (std::size_t i = 0; i < records.size(); ++i) {
      ASSERT_EQ(crcs[i], SlowCrc(records[i].bytes())) << "record " << i << " of " << stride;
    }
  }
}

TEST(Crc32cTest, LengthsAsTheirBytes) {
  const std::vector<std::uint64_t> values = {0, 1, 250, 1ULL << 62, ~0ULL};
  std::vector<std::uint32_t> crcs(values.size());
  Crc32cOfEachU64(values, crcs.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(crcs[i], SlowCrc(std::as_bytes(std::span(values).subspan(i, 1))));
  }
}

TEST(Crc32cTest, ShiftedByWhatStandsBehindCrcsAddUp) {
  std::vector<std::byte> data(300'000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31 + i / 97);
  const std::span<const std::byte> all = data;
  for (const std::size_t first : {0u, 1u, 7u, 255u, 256u, 70'000u, 299'999u, 300'000u}) {
    const std::uint32_t front = Crc32c(all.first(first));
    const std::uint32_t behind = Crc32c(all.subspan(first));
    EXPECT_EQ(ShiftCrc32c(front, data.size() - first) ^ behind, Crc32c(all)) << first;
  }
}

TEST(Crc32cTest, AShiftByAnyNumberIsAProductWithThatPower) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t bytes = random() >> random() % 64;
    const auto crc = static_cast<std::uint32_t>(random());
    std::uint32_t expected = crc;
    std::uint32_t power = kCrc32cPerByte;
    for (std::uint64_t rest = bytes; rest != 0; rest >>= 1) {
      if ((rest & 1) != 0) expected = MultiplyCrc32c(expected, power);
      power = MultiplyCrc32c(power, power);
    }
    ASSERT_EQ(ShiftCrc32c(crc, bytes), expected) << crc << " by " << bytes;
  }
}

TEST(Crc32cTest, UnmaskedIsWhatWasMasked) {
  for (const std::uint32_t crc : {0U, 1U, 0x12345678U, 0xFFFFFFFFU, 0xA282EAD8U}) {
    EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
  }
}

}  // namespace
}  // namespace ringfeed
