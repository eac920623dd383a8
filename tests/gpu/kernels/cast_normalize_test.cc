#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ringfeed/devices/device_kernels.h"
#include "tests/gpu/kernels/slow_rounding.h"

namespace ringfeed {
namespace {

/// Exact in f64 but for one rounding, so that each step is rounded to f32 once and by nobody else.
float SlowNormalized(std::uint8_t value, float mean, float scale) {
  const auto difference =
      static_cast<float>(static_cast<double>(value) - static_cast<double>(mean));
  return static_cast<float>(static_cast<double>(difference) * static_cast<double>(scale));
}

std::uint32_t SlowOutput(DType dtype, std::uint8_t value, float mean, float scale) {
  const float number = SlowNormalized(value, mean, scale);
  if (dtype == kFloat16) return SlowFormat::Float16().Nearest(static_cast<double>(number));
  if (dtype == kBFloat16) return SlowFormat::BFloat16().Nearest(static_cast<double>(number));
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

/// Output `i` as a number.
std::uint32_t PatternAt(const std::vector<std::uint32_t>& output, DType dtype, std::size_t i) {
  std::uint32_t pattern = 0;
  const std::size_t size = DTypeBytes(dtype);
  std::memcpy(&pattern, reinterpret_cast<const std::byte*>(output.data()) + i * size, size);
  return pattern;
}

std::vector<std::uint32_t> RunOn(CastNormalize kernel, const std::vector<std::uint8_t>& input) {
  std::vector<std::uint32_t> output(input.size(), 0xEEEEEEEE);
  kernel.input = reinterpret_cast<const std::byte*>(input.data());
  kernel.output = reinterpret_cast<std::byte*>(output.data());
  const Status status = CheckKernel(kernel);
  EXPECT_TRUE(status.ok()) << status.ToString();
  RunKernelOnHost(kernel);
  return output;
}

/// Compares with the reference, from the place in the output back to that in the input.
void ExpectAsTheReference(const CastNormalize& kernel, const std::vector<std::uint8_t>& input) {
  const std::vector<std::uint32_t> output = RunOn(kernel, input);
  const std::size_t pixels = kernel.height * kernel.width;
  for (std::size_t i = 0; i < input.size(); ++i) {
    std::size_t channel = i % kernel.channels;
    std::size_t source = i;
    if (kernel.channels_first) {
      const std::size_t column = i % kernel.width;
      const std::size_t line = i / kernel.width % kernel.height;
      channel = i / pixels % kernel.channels;
      const std::size_t row = i / pixels / kernel.channels;
      source = ((row * kernel.height + line) * kernel.width + column) * kernel.channels + channel;
    }
    ASSERT_EQ(
        PatternAt(output, kernel.output_dtype, i),
        SlowOutput(kernel.output_dtype, input[source], kernel.mean[channel], kernel.scale[channel]))
        << "output " << i << " of " << DTypeName(kernel.output_dtype) << ", value "
        << int{input[source]} << ", mean " << kernel.mean[channel] << ", scale "
        << kernel.scale[channel];
  }
}

class CastNormalizeTo : public ::testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(All, CastNormalizeTo, ::testing::Values(kFloat32, kFloat16, kBFloat16),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

std::vector<std::uint8_t> EveryByte(std::size_t channels) {
  std::vector<std::uint8_t> input;
  for (std::size_t i = 0; i < 256 * channels; ++i) {
    input.push_back(static_cast<std::uint8_t>(i / channels));
  }
  return input;
}

TEST_P(CastNormalizeTo, RoundsEveryByteOnceWhateverMeanAndScale) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  const std::vector<float> means = {0,      -0.0F, 127.5F, 123.675F, 116.28F, 0.1F,    255,
                                    1e-30F, kMost, -kMost, kLeast,   1e7F,    -2049.5F};
  const std::vector<float> scales = {1,     -1,     0,     -0.0F,  1.0F / 255, 1.0F / 58.395F,
                                     1e-3F, 6e-8F,  1e-9F, 256.5F, 1e-38F,     3e-41F,
                                     kMost, -kMost, kLeast};
  CastNormalize kernel{.rows = 256, .channels = 4, .output_dtype = GetParam()};
  const std::vector<std::uint8_t> input = EveryByte(4);
  for (const float mean : means) {
    for (std::size_t i = 0; i < scales.size(); ++i) {
      kernel.mean = {mean, means[i % means.size()], 1, mean};
      kernel.scale = {scales[i], scales[i], mean, scales[scales.size() - 1 - i]};
      ExpectAsTheReference(kernel, input);
    }
  }
}

TEST_P(CastNormalizeTo, DefaultsKeepTheNumbers) {
  const std::vector<std::uint8_t> input = EveryByte(1);
  const CastNormalize kernel{.rows = 256, .output_dtype = GetParam()};
  const std::vector<std::uint32_t> output = RunOn(kernel, input);
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::uint32_t pattern = PatternAt(output, GetParam(), i);
    float number = 0;
    if (GetParam() == kFloat32) {
      std::memcpy(&number, &pattern, sizeof(number));
    } else {
      const auto slow = GetParam() == kFloat16 ? SlowFormat::Float16() : SlowFormat::BFloat16();
      number = static_cast<float>(slow.Decode(static_cast<std::uint16_t>(pattern)));
    }
    ASSERT_EQ(number, static_cast<float>(i));
  }
}

TEST_P(CastNormalizeTo, EachChannelHasItsMeanAndScaleInEitherOrder) {
  for (const std::size_t channels : {1U, 2U, 3U, 4U}) {
    for (const bool channels_first : {false, true}) {
      for (const auto& [rows, height, width] :
           std::vector<std::array<std::size_t, 3>>{{1, 1, 1}, {3, 1, 1}, {1, 5, 7}, {2, 16, 3}}) {
        const CastNormalize kernel{.rows = rows,
                                   .height = height,
                                   .width = width,
                                   .channels = channels,
                                   .output_dtype = GetParam(),
                                   .channels_first = channels_first,
                                   .mean = {1, 20, 300, 4000},
                                   .scale = {0.5F, -0.25F, 3, 1.0F / 7}};
        std::vector<std::uint8_t> input(rows * height * width * channels);
        for (std::size_t i = 0; i < input.size(); ++i) {
          input[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
        }
        ExpectAsTheReference(kernel, input);
      }
    }
  }
}

TEST(CastNormalize, ChannelsFirstTakesTheImageApart) {
  const std::vector<std::uint8_t> input = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const CastNormalize kernel{
      .rows = 2, .width = 2, .channels = 3, .output_dtype = kFloat32, .channels_first = true};
  const std::vector<std::uint32_t> output = RunOn(kernel, input);
  std::vector<float> numbers(output.size());
  std::memcpy(numbers.data(), output.data(), output.size() * sizeof(float));
  EXPECT_EQ(numbers, (std::vector<float>{1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12}));
}

TEST(CastNormalize, NoPixelsAreNoWork) {
  for (const bool channels_first : {false, true}) {
    for (const std::array<std::uint64_t, 3>& sizes :
         std::vector<std::array<std::uint64_t, 3>>{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}) {
      const CastNormalize kernel{.rows = sizes[0],
                                 .height = sizes[1],
                                 .width = sizes[2],
                                 .channels_first = channels_first};
      EXPECT_TRUE(CheckKernel(kernel).ok());
      RunKernelOnHost(kernel);
    }
  }
}

}  // namespace
}  // namespace ringfeed
