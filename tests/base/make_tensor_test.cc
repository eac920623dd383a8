#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/slot.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {
namespace {

using Offsets = std::vector<std::int64_t>;

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    return error.status().message();
  }
  return "nothing was thrown";
}

template <typename T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  const auto values = tensor.Values<T>();
  return {values.begin(), values.end()};
}

Offsets LevelOf(const Tensor& tensor, std::size_t level) {
  return {tensor.lod.at(level).begin(), tensor.lod.at(level).end()};
}

TEST(MakeTensorTest, TheValuesAreMovedAndOwned) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto* const memory = reinterpret_cast<const std::byte*>(values.data());
  const Tensor tensor = MakeTensor({2, 3}, std::move(values));
  EXPECT_EQ(tensor.data, memory);
  EXPECT_EQ(tensor.dtype, kFloat32);
  EXPECT_EQ(tensor.shape, (Shape{2, 3}));
  EXPECT_EQ(tensor.bytes, 24U);
  EXPECT_NE(tensor.owner, nullptr);
  EXPECT_EQ(ValuesOf<float>(tensor), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(CheckTensor({"", kFloat32, {-1, 3}, 0}, tensor).ok());
}

TEST(MakeTensorTest, TheDtypeIsThatOfTheValues) {
  EXPECT_EQ(MakeTensor(std::vector<std::int64_t>{1, 2}).dtype, kInt64);
  EXPECT_EQ(MakeTensor(std::vector<long long>{1}).dtype, kInt64);  // NOLINT: not int64_t here
  EXPECT_EQ(MakeTensor(std::vector<signed char>{1}).dtype, kInt8);
  EXPECT_EQ(MakeTensor(std::vector<std::byte>(3)).dtype, kUInt8);
  EXPECT_EQ(MakeScalar(1.5).dtype, kFloat64);
  EXPECT_EQ(MakeScalar<std::uint16_t>(1).dtype, kUInt16);
  EXPECT_EQ(MakeScalar(std::int64_t{4}).shape, Shape{});
  const Tensor halves = MakeTensor(kBFloat16, {2}, std::vector<std::uint16_t>{0x3f80, 0x4000});
  EXPECT_EQ(halves.dtype, kBFloat16);
  EXPECT_EQ(ValuesOf<std::uint16_t>(halves)[1], 0x4000);
}

TEST(MakeTensorTest, BoolsAreBytesOfZeroOrOne) {
  const Tensor tensor = MakeTensor(std::vector<bool>{true, false, true});
  EXPECT_EQ(tensor.dtype, kBool);
  EXPECT_EQ(ValuesOf<bool>(tensor), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(ValuesOf<std::uint8_t>(tensor), (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST(MakeTensorTest, BytesOfAStringAreATensor) {
  const Tensor tensor = MakeBytes("jpeg");
  EXPECT_EQ(tensor.shape, (Shape{4}));
  EXPECT_EQ(ValuesOf<char>(tensor), (std::vector<char>{'j', 'p', 'e', 'g'}));
}

TEST(MakeTensorTest, NoValuesHaveAPlaceAllTheSame) {
  const Tensor tensor = MakeTensor({0, 3}, std::vector<float>());
  EXPECT_NE(tensor.data, nullptr);
  EXPECT_EQ(tensor.bytes, 0U);
}

TEST(MakeTensorTest, ElementsThatDoNotFitTheShapeAreToldWithBothNumbers) {
  EXPECT_EQ(MessageOf([] {
              MakeTensor({2, 3}, std::vector<float>(5));
            }),
            "a tensor of shape [2, 3] has 6 elements, 5 were given");
  EXPECT_EQ(MessageOf([] { MakeTensor({-1}, std::vector<float>(5)); }),
            "a tensor of shape [-1] cannot be");
  EXPECT_EQ(MessageOf([] {
              MakeTensor({-1, -1}, std::vector<float>(1));
            }),
            "a tensor of shape [-1, -1] cannot be");
  EXPECT_EQ(MessageOf([] { MakeTensor(kFloat16, {1}, std::vector<float>(1)); }),
            "the tensor's elements are float16, they were asked for as float32");
}

TEST(MakeTensorTest, AShapeWhoseBytesCannotBeCountedIsRefused) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  EXPECT_EQ(MessageOf([] {
              MakeTensor({kLarge, kLarge}, std::vector<float>());
            }),
            "a tensor of shape [4294967296, 4294967296] cannot be");
  EXPECT_EQ(MessageOf([] {
              MakeTensor({kLarge, 1 << 29}, std::vector<float>());
            }),
            "a tensor of shape [4294967296, 536870912] cannot be");
  EXPECT_EQ(MessageOf([] {
              MakeTensor({0, kLarge, kLarge}, std::vector<float>());
            }),
            "a tensor of shape [0, 4294967296, 4294967296] cannot be");
  EXPECT_EQ(MakeTensor({kLarge, 0}, std::vector<float>()).bytes, 0U);
}

TEST(MakeTensorTest, RaggedRowsHaveTheirOffsets) {
  const Tensor rows = MakeRagged(std::vector<std::vector<float>>{{1, 2}, {}, {3}});
  EXPECT_EQ(rows.shape, (Shape{3}));
  EXPECT_EQ(LevelOf(rows, 0), (Offsets{0, 2, 2, 3}));
  EXPECT_EQ(ValuesOf<float>(rows), (std::vector<float>{1, 2, 3}));
  const Tensor steps = MakeRagged(std::vector<float>{1, 2, 3, 4, 5, 6}, {1, 2}, {2});
  EXPECT_EQ(steps.shape, (Shape{3, 2}));
  EXPECT_EQ(LevelOf(steps, 0), (Offsets{0, 1, 3}));
  EXPECT_TRUE(CheckTensor({"", kFloat32, {-1, 2}, 1}, steps).ok());
  const Tensor words = MakeRagged(std::vector<std::string>{"ab", "c"});
  EXPECT_EQ(words.dtype, kUInt8);
  EXPECT_EQ(LevelOf(words, 0), (Offsets{0, 2, 3}));
  EXPECT_EQ(MessageOf([] {
              MakeRagged(std::vector<float>(4), {1, 2});
            }),
            "a tensor of shape [3] has 3 elements, 4 were given");
  EXPECT_EQ(MessageOf([] {
              MakeRagged(std::vector<float>(1), {2, -1});
            }),
            "a row of -1 steps cannot be");
}

TEST(MakeTensorTest, LevelsAreOwnedAndChecked) {
  const Tensor tensor = WithLoD(MakeTensor(std::vector<float>(5)), {{0, 2, 3}, {0, 2, 2, 5}});
  EXPECT_EQ(LevelOf(tensor, 0), (Offsets{0, 2, 3}));
  EXPECT_EQ(LevelOf(tensor, 1), (Offsets{0, 2, 2, 5}));
  EXPECT_EQ(MessageOf([] {
              WithLoD(MakeTensor(std::vector<float>(5)), {{0, 4}});
            }),
            "level 0 of its LoD ends at 4, not at the 5 rows");
  EXPECT_EQ(MessageOf([] { WithLoD(MakeScalar(1), {{0, 1}}); }), "a scalar has no LoD");
}

}  // namespace
}  // namespace ringfeed
