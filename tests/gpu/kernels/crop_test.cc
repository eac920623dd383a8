#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/devices/device_kernels.h"
#include "tests/gpu/kernels/slow_crop.h"

// Crops and mirrored ones are what the plain kernel makes of images that were cropped before.

namespace ringfeed {
namespace {

constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kFarBack = std::numeric_limits<std::int32_t>::min();

std::vector<std::byte> ResultOf(CastNormalize kernel, const std::vector<std::uint8_t>& images,
                                const std::vector<std::int32_t>& places) {
  const std::size_t bytes = kernel.rows * kernel.output_height() * kernel.output_width() *
                            kernel.channels * DTypeBytes(kernel.output_dtype);
  std::vector<std::uint32_t> output(bytes / 4 + 1, 0xEEEEEEEE);
  kernel.input = reinterpret_cast<const std::byte*>(images.data());
  kernel.output = reinterpret_cast<std::byte*>(output.data());
  if (!places.empty()) kernel.crops = places.data();
  const Status status = CheckKernel(kernel);
  EXPECT_TRUE(status.ok()) << status.ToString();
  RunKernelOnHost(kernel);
  const auto* const begin = reinterpret_cast<const std::byte*>(output.data());
  for (std::size_t i = bytes; i < output.size() * 4; ++i) EXPECT_EQ(begin[i], std::byte{0xEE});
  return {begin, begin + bytes};
}

/// The same without a word of crops.
std::vector<std::byte> ExpectedOf(CastNormalize kernel, const std::vector<std::uint8_t>& images,
                                  const std::vector<std::int32_t>& places) {
  const SlowCrop slow{kernel.height, kernel.width, kernel.channels, kernel.output_height(),
                      kernel.output_width()};
  const std::vector<std::uint8_t> taken = slow.Of(images, places);
  kernel.height = std::exchange(kernel.crop_height, 0) == 0 ? kernel.height : slow.crop_height;
  kernel.width = std::exchange(kernel.crop_width, 0) == 0 ? kernel.width : slow.crop_width;
  return ResultOf(kernel, taken, {});
}

std::vector<std::uint8_t> RandomImages(const CastNormalize& kernel, std::mt19937& random) {
  std::vector<std::uint8_t> images(kernel.rows * kernel.height * kernel.width * kernel.channels);
  for (std::uint8_t& byte : images) byte = static_cast<std::uint8_t>(random());
  return images;
}

std::vector<std::int32_t> RandomPlaces(const CastNormalize& kernel, std::mt19937& random) {
  std::vector<std::int32_t> places;
  for (std::uint64_t row = 0; row < kernel.rows; ++row) {
    for (const std::uint64_t side : {kernel.height, kernel.width}) {
      const auto wide = static_cast<std::int32_t>(side);
      places.push_back(static_cast<std::int32_t>(random() % (3 * side)) - wide);  // beyond, too
    }
    places.push_back(static_cast<std::int32_t>(random() % 3));
  }
  return places;
}

class CropTo : public ::testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(All, CropTo, ::testing::Values(kFloat32, kFloat16, kBFloat16),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

TEST_P(CropTo, GivesWhatImagesThatWereCroppedBeforeGive) {
  std::mt19937 random(3);
  for (const auto& [height, width, crop_height, crop_width] :
       std::vector<std::array<std::size_t, 4>>{{1, 1, 1, 1},
                                               {5, 7, 5, 7},
                                               {5, 7, 0, 0},
                                               {6, 9, 1, 1},
                                               {6, 9, 3, 0},
                                               {9, 6, 0, 4},
                                               {16, 16, 14, 14},
                                               {11, 40, 7, 32}}) {
    for (const std::uint64_t channels : {1U, 2U, 3U, 4U}) {
      for (const bool channels_first : {false, true}) {
        const CastNormalize kernel{.rows = 6,
                                   .height = height,
                                   .width = width,
                                   .channels = channels,
                                   .output_dtype = GetParam(),
                                   .channels_first = channels_first,
                                   .mean = {1, 20, 300, 4000},
                                   .scale = {0.5F, -0.25F, 3, 1.0F / 7},
                                   .crop_height = crop_height,
                                   .crop_width = crop_width};
        SCOPED_TRACE(testing::Message()
                     << crop_height << " by " << crop_width << " of " << height << " by " << width
                     << " by " << channels << (channels_first ? ", channels first" : ""));
        const std::vector<std::uint8_t> images = RandomImages(kernel, random);
        const std::vector<std::int32_t> places = RandomPlaces(kernel, random);
        EXPECT_EQ(ResultOf(kernel, images, places), ExpectedOf(kernel, images, places));
        EXPECT_EQ(ResultOf(kernel, images, {}), ExpectedOf(kernel, images, {}));
      }
    }
  }
}

/// The numbers of images of 4 by 4 pixels, 0 to 15 in each, cropped to 2 by 3.
std::vector<float> Numbers(const std::vector<std::int32_t>& places, std::uint64_t rows = 1) {
  std::vector<std::uint8_t> images;
  for (std::uint64_t i = 0; i < rows * 16; ++i) images.push_back(static_cast<std::uint8_t>(i % 16));
  const CastNormalize kernel{
      .rows = rows, .height = 4, .width = 4, .crop_height = 2, .crop_width = 3};
  const std::vector<std::byte> bytes = ResultOf(kernel, images, places);
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

TEST(Crop, StandsWhereItsRowSays) {
  EXPECT_EQ(Numbers({0, 0, 0}), (std::vector<float>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(Numbers({1, 1, 0}), (std::vector<float>{5, 6, 7, 9, 10, 11}));
  EXPECT_EQ(Numbers({2, 0, 0, 0, 1, 0}, 2),
            (std::vector<float>{8, 9, 10, 12, 13, 14, 1, 2, 3, 5, 6, 7}));
}

TEST(Crop, IsMirroredLeftToRightByAnyNumberButZero) {
  EXPECT_EQ(Numbers({1, 1, 1}), (std::vector<float>{7, 6, 5, 11, 10, 9}));
  EXPECT_EQ(Numbers({1, 0, -1}), (std::vector<float>{6, 5, 4, 10, 9, 8}));
}

TEST(Crop, WithoutPlacesIsTheMiddleRoundedUpAndLeft) {
  EXPECT_EQ(Numbers({}), (std::vector<float>{4, 5, 6, 8, 9, 10}));
}

TEST(Crop, BeyondAnEdgeIsMovedToIt) {
  EXPECT_EQ(Numbers({-1, -7, 0}), Numbers({0, 0, 0}));
  EXPECT_EQ(Numbers({kFarBack, kFarBack, 1}), Numbers({0, 0, 1}));
  EXPECT_EQ(Numbers({3, 2, 0}), Numbers({2, 1, 0}));
  EXPECT_EQ(Numbers({kFar, kFar, 1}), Numbers({2, 1, 1}));
}

TEST(Crop, OfAllOfItWithPlacesMirrorsAlone) {
  const std::vector<std::uint8_t> images = {1, 2, 3, 4, 5, 6};
  const CastNormalize kernel{.rows = 1, .height = 1, .width = 2, .channels = 3};
  const std::vector<std::byte> bytes = ResultOf(kernel, images, {9, 9, 1});
  std::vector<float> numbers(6);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  EXPECT_EQ(numbers, (std::vector<float>{4, 5, 6, 1, 2, 3}));
}

TEST(Crop, OfNoPixelsIsNoWork) {
  const std::vector<std::int32_t> places(9);
  for (const std::array<std::uint64_t, 3>& sizes :
       std::vector<std::array<std::uint64_t, 3>>{{0, 4, 4}, {3, 0, 4}, {3, 4, 0}}) {
    const CastNormalize kernel{.rows = sizes[0],
                               .height = sizes[1],
                               .width = sizes[2],
                               .crop_height = sizes[1] / 2,
                               .crop_width = sizes[2] / 2,
                               .crops = places.data()};
    EXPECT_TRUE(CheckKernel(kernel).ok());
    for (const MemoryAccess& access : KernelAccesses(kernel)) EXPECT_EQ(access.bytes, 0U);
    RunKernelOnHost(kernel);
  }
}

}  // namespace
}  // namespace ringfeed
