#include "ringfeed/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {
namespace {

TEST(TensorTest, LiesInHostMemoryUnlessItSaysOtherwise) {
  EXPECT_EQ(Tensor().place, (Place{DeviceType::kCpu, 0}));
}

TEST(TensorTest, SizesThatCannotBeCountedDoNotWrap) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  EXPECT_EQ(ShapeElements({kLarge, kLarge}), kMost);
  EXPECT_EQ(ShapeElements({kMost, 2}), kMost);
  EXPECT_EQ(ShapeElements({kLarge, kLarge / 4}), std::int64_t{1} << 62);
  EXPECT_EQ(ShapeElements({kLarge, kLarge, 0}), 0);
  EXPECT_EQ((FieldSpec{"", kFloat32, {kLarge, kLarge}}.unit_bytes()), std::size_t{kMost});
  EXPECT_EQ((FieldSpec{"", kFloat32, {-1, kMost}}.unit_bytes()), std::size_t{kMost});
  EXPECT_EQ((FieldSpec{"", kFloat64, {kLarge, kLarge / 8}}.unit_bytes()), std::size_t{kMost});
}

TEST(TensorTest, ValuesAreOfTheTensorsOwnType) {
  const std::array<std::int32_t, 2> numbers = {3, 4};
  Tensor tensor;
  tensor.dtype = kInt32;
  tensor.data = reinterpret_cast<const std::byte*>(numbers.data());
  tensor.bytes = sizeof(numbers);
  EXPECT_EQ(tensor.Values<std::int32_t>()[1], 4);
  try {
    (void)tensor.Values<float>();
    FAIL() << "int32 was taken as float32";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(error.status().message(),
              "the tensor's elements are int32, they were asked for as float32");
  }
  EXPECT_THROW((void)tensor.Values<std::uint32_t>(), Error);
  EXPECT_THROW((void)tensor.Values<std::int64_t>(), Error);
}

TEST(TensorTest, AFewTypesStandForOthers) {
  EXPECT_TRUE(IsElementOf<std::byte>(kUInt8) && IsElementOf<char>(kUInt8));
  EXPECT_TRUE(IsElementOf<std::uint8_t>(kUInt8) && IsElementOf<std::uint8_t>(kBool));
  EXPECT_TRUE(IsElementOf<bool>(kBool) && IsElementOf<const float>(kFloat32));
  EXPECT_TRUE(IsElementOf<std::uint16_t>(kFloat16) && IsElementOf<std::uint16_t>(kBFloat16));
  EXPECT_FALSE(IsElementOf<bool>(kUInt8) || IsElementOf<std::byte>(kBool));
  EXPECT_FALSE(IsElementOf<std::int8_t>(kUInt8) || IsElementOf<std::int16_t>(kFloat16));
}

TEST(PlaceTest, NamesArePlacesAgain) {
  EXPECT_EQ(PlaceName({}), "CPU");
  EXPECT_EQ(PlaceName({DeviceType::kCuda, 0}), "CUDA:0");
  EXPECT_EQ(PlaceName({DeviceType::kEmulated, 12}), "EMU:12");
  for (const Place place :
       {Place{}, Place{DeviceType::kCuda, 0}, Place{DeviceType::kEmulated, 12}}) {
    EXPECT_EQ(PlaceOfName(PlaceName(place)), place);
  }
}

TEST(PlaceTest, WhatIsWrittenOtherwiseIsNoPlace) {
  for (const std::string name :
       {"", "cpu", "CPU:0", "CUDA", "CUDA:", "CUDA:x", "CUDA:1x", "CUDA:-1", "CUDA:-0", "CUDA:+1",
        "CUDA: 1", "CUDA:01", "CUDA:99999999999", "EMU", "EMU:", "TPU:0"}) {
    EXPECT_EQ(PlaceOfName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace ringfeed
