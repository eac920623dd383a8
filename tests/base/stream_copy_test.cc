#include "base/stream_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/summed_lines.h"

namespace ringfeed {
namespace {

TEST(StreamCopyTest, CopiesExactlyWhatItShould) {
  std::vector<std::byte> from(3000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const std::size_t size :
       {0u, 1u, 63u, 64u, 65u, 500u, 511u, 512u, 513u, 576u, 1000u, 2047u, 2900u}) {
    for (const std::size_t at : {0u, 1u, 31u, 63u}) {
      std::vector<std::byte> to(3200, std::byte{0xee});
      StreamCopy(to.data() + at, from.data() + at % 3, size);
      StreamFence();
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= at && i < at + size;
        ASSERT_EQ(to[i], inside ? from[i - at + at % 3] : std::byte{0xee}) << size << " " << at;
      }
    }
  }
}

std::vector<std::byte> Text(std::size_t bytes) {
  std::vector<std::byte> text(bytes);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<std::byte>(i * 131 + i / 251);
  return text;
}

TEST(SummedLinesTest, CopiesAndAddsUpWhateverStandsBefore) {
  constexpr std::size_t kLine = 64;
  const std::vector<std::byte> text = Text(70 * kLine);
  const SummedLines copy = FindSummedLines();
  if (copy == nullptr) GTEST_SKIP() << "this processor multiplies no polynomials by AVX-512";
  for (std::size_t lines = 0; lines < 40; ++lines) {
    for (const std::size_t at : {0u, 1u, 17u, 64u}) {
      alignas(kLine) std::byte to[41 * kLine];
      std::memset(to, 0xee, sizeof to);
      const std::uint32_t before = Crc32c(std::span(text).first(at));
      const std::uint32_t sum = copy(to, text.data() + at, lines, before);
      StreamFence();
      ASSERT_EQ(sum, Crc32c(std::span(text).first(at + lines * kLine))) << lines << " " << at;
      ASSERT_EQ(std::memcmp(to, text.data() + at, lines * kLine), 0) << lines << " " << at;
      ASSERT_EQ(to[lines * kLine], std::byte{0xee});
    }
  }
}

struct Copied {
  std::size_t from;
  std::size_t bytes;
};

// Copies these fields of a record while its sum is taken, and checks both.
void ExpectSumBeside(std::size_t record_bytes, const std::vector<Copied>& fields) {
  const std::vector<std::byte> text = Text(record_bytes + 4096);
  const auto record = std::span(text).first(record_bytes);
  for (const std::size_t at : {0u, 3u, 63u}) {
    SumBeside sum(record);
    for (const Copied& field : fields) {
      std::vector<std::byte> to(at + field.bytes + 64, std::byte{0xee});
      StreamCopy(to.data() + at, text.data() + field.from, field.bytes);
      StreamFence();
      ASSERT_EQ(std::memcmp(to.data() + at, text.data() + field.from, field.bytes), 0);
      ASSERT_EQ(to[at + field.bytes], std::byte{0xee});
    }
    ASSERT_EQ(sum.Finish(), Crc32c(record)) << at;
  }
}

TEST(SumBesideTest, AddsUpARecordThatIsCopiedWholeInPartsOrNotAtAll) {
  ExpectSumBeside(20'000, {});
  ExpectSumBeside(0, {});
  ExpectSumBeside(20'000, {{0, 20'000}});
  ExpectSumBeside(20'000, {{37, 19'000}});
  ExpectSumBeside(20'000, {{100, 3'000}, {3'105, 600}, {4'000, 10}, {9'001, 10'999}});
}

TEST(SumBesideTest, CountsNoByteTwiceAndNoneThatIsNotTheRecords) {
  ExpectSumBeside(20'000, {{9'000, 5'000}, {100, 8'000}});      // against the order in memory
  ExpectSumBeside(20'000, {{100, 9'000}, {100, 9'000}});        // a field of two columns
  ExpectSumBeside(20'000, {{100, 9'000}, {8'000, 9'000}});      // they overlap
  ExpectSumBeside(20'000, {{19'000, 4'000}, {20'500, 3'000}});  // past the end, and behind it
  ExpectSumBeside(20'000, {{20'001, 2'000}, {5, 19'990}, {0, 20'000}});
}

TEST(SumBesideTest, AddsUpWhatWasCopiedWhateverIsWrittenThereAfterwards) {
  constexpr std::size_t kFrom = 100;
  for (const std::size_t bytes : {1'000u, 19'000u, 19'063u, 19'327u}) {
    std::vector<std::byte> text = Text(20'000);
    const std::uint32_t expected = Crc32c(text);
    for (const std::size_t at : {0u, 5u, 63u}) {
      std::vector<std::byte> to(at + bytes);
      SumBeside sum(text);
      StreamCopy(to.data() + at, text.data() + kFrom, bytes);
      for (std::size_t i = 0; i < bytes; ++i) text[kFrom + i] ^= std::byte{0x55};
      EXPECT_EQ(sum.Finish(), expected) << bytes << " " << at;
      for (std::size_t i = 0; i < bytes; ++i) text[kFrom + i] ^= std::byte{0x55};
    }
  }
}

TEST(SumBesideTest, TakesNothingBeforeItBeginsAndAfterItsEnd) {
  const std::vector<std::byte> text = Text(20'000);
  std::vector<std::byte> to(20'000);
  const auto first = std::span(text).first(10'000);
  const auto second = std::span(text).subspan(10'000);
  { const SumBeside ended{first}; }
  StreamCopy(to.data(), text.data(), 10'000);
  SumBeside sum{second};
  EXPECT_EQ(sum.Finish(), Crc32c(second));
  EXPECT_EQ(sum.Finish(), Crc32c(second));
}

TEST(ExtendCrc32cTest, GoesOnWhereASumEnded) {
  const std::vector<std::byte> text = Text(500);
  for (std::size_t at = 0; at <= text.size(); at += 50) {
    const std::uint32_t before = Crc32c(std::span(text).first(at));
    EXPECT_EQ(ExtendCrc32c(before, std::span(text).subspan(at)), Crc32c(text));
  }
}

}  // namespace
}  // namespace ringfeed
