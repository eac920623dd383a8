#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

std::vector<std::uint16_t> EveryToken() {
  std::vector<std::uint16_t> tokens;
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    tokens.push_back(static_cast<std::uint16_t>(i * 40'503));  // odd: each comes once
  }
  return tokens;
}

template <typename Wide>
void ExpectEveryTokenToComeOut(DType dtype) {
  const std::vector<std::uint16_t> tokens = EveryToken();
  std::vector<Wide> output(tokens.size() + 1, -1);
  const WidenTokens kernel{.input = reinterpret_cast<const std::byte*>(tokens.data()),
                           .output = reinterpret_cast<std::byte*>(output.data()),
                           .count = tokens.size(),
                           .output_dtype = dtype};
  ASSERT_TRUE(CheckKernel(kernel).ok());
  RunKernelOnHost(kernel);
  std::vector<bool> seen(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(output[i], static_cast<Wide>(i * 40'503 % 65'536));
    seen[static_cast<std::size_t>(output[i])] = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(tokens.size(), true));
  EXPECT_EQ(output.back(), -1);
}

TEST(WidenTokens, EveryTokenIsItsNumberIn32Bits) {
  ExpectEveryTokenToComeOut<std::int32_t>(kInt32);
}

TEST(WidenTokens, EveryTokenIsItsNumberIn64Bits) {
  ExpectEveryTokenToComeOut<std::int64_t>(kInt64);
}

TEST(WidenTokens, NoTokensAreNoWork) {
  const WidenTokens kernel;
  EXPECT_TRUE(CheckKernel(kernel).ok());
  RunKernelOnHost(kernel);
}

}  // namespace
}  // namespace ringfeed
