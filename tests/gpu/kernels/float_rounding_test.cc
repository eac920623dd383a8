#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "gpu/kernels/kernel_math.h"
#include "tests/gpu/kernels/slow_rounding.h"

namespace ringfeed {
namespace {

struct Format {
  const char* name;
  SlowFormat slow;
  std::uint16_t (*bits)(float);
  std::uint16_t nan;
};

class FloatRounding : public ::testing::TestWithParam<Format> {};

INSTANTIATE_TEST_SUITE_P(
    To, FloatRounding,
    ::testing::Values(Format{"Float16", SlowFormat::Float16(), Float16Bits, 0x7E00},
                      Format{"BFloat16", SlowFormat::BFloat16(), BFloat16Bits, 0x7FC0}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(FloatRounding, EveryPatternComesBackAsItIs) {
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto pattern = static_cast<std::uint16_t>(i);
    const double number = GetParam().slow.Decode(pattern);
    const std::uint16_t expected = std::isnan(number) ? GetParam().nan : pattern;
    ASSERT_EQ(GetParam().bits(static_cast<float>(number)), expected) << "pattern " << i;
  }
}

// Rounding is monotonic, so that what happens at the middles holds for everything between them.
TEST_P(FloatRounding, MiddlesGoToTheEvenNeighbourAndTheirNeighboursToTheNearer) {
  constexpr float kUp = std::numeric_limits<float>::infinity();
  const Format& format = GetParam();
  const double step_at_the_end =
      format.slow.Decode(static_cast<std::uint16_t>(format.slow.infinity() - 1)) -
      format.slow.Decode(static_cast<std::uint16_t>(format.slow.infinity() - 2));
  for (std::uint16_t below = 0; below < format.slow.infinity(); ++below) {
    const auto above = static_cast<std::uint16_t>(below + 1);
    const double low = format.slow.Decode(below);
    const double high =
        above == format.slow.infinity() ? low + step_at_the_end : format.slow.Decode(above);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2);
    const std::uint16_t even = below % 2 == 0 ? below : above;
    ASSERT_EQ(format.bits(middle), even) << "above pattern " << below;
    ASSERT_EQ(format.bits(std::nextafter(middle, 0.0F)), below) << "above pattern " << below;
    ASSERT_EQ(format.bits(std::nextafter(middle, kUp)), above) << "above pattern " << below;
    ASSERT_EQ(format.bits(-middle), even + 0x8000) << "above pattern " << below;
  }
}

TEST_P(FloatRounding, TheSlowReferenceAgreesOnNumbersOfAllSizes) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 300'000; ++i, bits += 2'654'435'761U) {
    float number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    if (std::isnan(number)) continue;
    ASSERT_EQ(GetParam().bits(number), GetParam().slow.Nearest(static_cast<double>(number)))
        << number;
  }
}

TEST_P(FloatRounding, LargestFloatIsInfinity) {
  const auto most = std::numeric_limits<float>::max();
  EXPECT_EQ(GetParam().bits(most), GetParam().slow.infinity());
  EXPECT_EQ(GetParam().bits(-most), GetParam().slow.infinity() + 0x8000);
}

TEST_P(FloatRounding, SmallestFloatIsAZeroOfItsSign) {
  const auto least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(GetParam().bits(least), 0);
  EXPECT_EQ(GetParam().bits(-least), 0x8000);
}

TEST_P(FloatRounding, EveryNanIsTheSameOne) {
  for (const std::uint32_t bits :
       {0x7F800001U, 0x7FBFFFFFU, 0x7FFFFFFFU, 0xFF800001U, 0xFFC12345U}) {
    float number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    EXPECT_EQ(GetParam().bits(number), GetParam().nan) << bits;
  }
}

}  // namespace
}  // namespace ringfeed
