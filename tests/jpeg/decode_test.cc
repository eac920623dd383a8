// Chains that decode images, and the parts that are chosen at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "readers/jpeg/decode_row.h"
#include "ringfeed/formats.h"
#include "ringfeed/jpeg.h"
#include "ringfeed/parsers.h"
#include "tests/jpeg/made_jpeg.h"
#include "tests/support/pattern_file.h"

namespace ringfeed::jpeg {
namespace {

constexpr int kImages = 60;

/// Image i is wider than image i - 1.
std::string ImageOf(int number) { return MadeJpeg({.width = 40 + number, .height = 50}); }

class DecodeTest : public testing::Test {
 protected:
  /// tf.Examples of an image, a number and a note.
  std::string MakeFile(const std::function<std::string(int)>& image_of = ImageOf) {
    const std::string path = directory_.File("images.tfrecord");
    auto opened = OpenRecordWriter(path, "tfrecord");
    for (std::int64_t i = 0; i < kImages; ++i) {
      ExampleBuilder example;
      example.AddBytes("jpg", image_of(static_cast<int>(i)));
      example.AddInts("cls", {&i, 1});
      example.AddBytes("note", std::string(static_cast<std::size_t>(i % 3), 'n'));
      EXPECT_TRUE(opened.writer->Write(example.Finish()).ok());
    }
    EXPECT_TRUE(opened.writer->Close().ok());
    return path;
  }
  static Reader Parsed(const std::string& path, const OpenOptions& options = {}) {
    return Parse(
        OpenFiles({path}, options),
        ExampleParser({{"jpg", kUInt8, {-1}}, {"cls", kInt64, {}}, {"note", kUInt8, {-1}}}));
  }
  /// What Decode says of these options; "" if it takes them.
  static std::string Refused(const DecodeOptions& options, Reader input) {
    try {
      Decode(std::move(input), options);
    } catch (const Error& error) {
      return error.status().message();
    }
    return "";
  }

  TempDir directory_;
};

TEST_F(DecodeTest, PixelsAreTheSameOnAnyNumberOfThreadsAndOtherFieldsStay) {
  const std::string path = MakeFile();
  const DecodeOptions options{.height = 32, .width = 24, .shorter_side = 36};
  for (const int threads : {1, 4}) {
    Reader images = Decode(Parsed(path, {.threads = threads}), options);
    EXPECT_EQ(images.fields()[0].shape, (Shape{32, 24, 3}));
    Reader reader = Batch(std::move(images), {.size = kImages});
    const Instance batch = reader.ReadNext();
    const auto pixels = batch["jpg"].Values<std::uint8_t>();
    for (int i = 0; i < kImages; ++i) {
      std::vector<std::uint8_t> row(32 * 24 * 3);
      const std::string image = ImageOf(i);
      DecodeRow(
          std::as_bytes(std::span(image)), options,
          [&](const ImageSize& size) { return CenterCrop(size, options); },
          std::as_writable_bytes(std::span(row)));
      const auto found = pixels.subspan(static_cast<std::size_t>(i) * row.size(), row.size());
      EXPECT_TRUE(std::ranges::equal(found, row)) << "image " << i << ", threads " << threads;
      EXPECT_EQ(batch["cls"].Values<std::int64_t>()[static_cast<std::size_t>(i)], i);
      const auto& ends = batch["note"].lod[0];
      EXPECT_EQ(ends[static_cast<std::size_t>(i) + 1] - ends[static_cast<std::size_t>(i)], i % 3);
    }
  }
}

TEST_F(DecodeTest, AFunctionChoosesTheCropAndSeesTheOtherFields) {
  const auto crop = [](const ImageSize& image, const MapInput& input) {
    EXPECT_EQ(image.height, 50);
    const auto number = static_cast<double>((*input.fields)["cls"].Values<std::int64_t>()[0]);
    return Crop{.top = 1, .left = number, .height = 30, .width = 40};
  };
  Reader reader = Batch(Decode(Parsed(MakeFile()), {.height = 30, .width = 40, .crop = crop}),
                        {.size = kImages});
  const Instance batch = reader.ReadNext();
  for (int i = 0; i < kImages; ++i) {
    const auto whole = WholePixels(ImageOf(i), 8, 3);
    const auto* const row = batch["jpg"].Values<std::uint8_t>().data() + i * 30 * 40 * 3;
    for (int y = 0; y < 30; ++y) {
      const auto* const line = whole.data() + ((y + 1) * (40 + i) + i) * 3;
      ASSERT_TRUE(std::equal(line, line + 40 * 3, row + y * 40 * 3)) << i << ", " << y;
    }
  }
}

TEST_F(DecodeTest, RecordsThatAreImagesNeedNoParser) {
  const std::string path = directory_.File("image.jpg");
  auto opened = OpenRecordWriter(path, "raw");
  const std::string image = ImageOf(0);
  ASSERT_TRUE(opened.writer->Write(std::as_bytes(std::span(image))).ok());
  ASSERT_TRUE(opened.writer->Close().ok());
  Reader reader = Batch(
      Decode(OpenFiles({path}, {.format = "raw"}), {.field = "record", .height = 50, .width = 40}),
      {.size = 1});
  const Instance batch = reader.ReadNext();
  EXPECT_TRUE(std::ranges::equal(batch["record"].Values<std::uint8_t>(), WholePixels(image, 8, 3)));
}

TEST_F(DecodeTest, ABrokenImageIsDamageByPolicy) {
  const std::string path = MakeFile([](int number) {
    const std::string image = ImageOf(number);
    return number == 7 ? image.substr(0, image.size() / 2) : image;
  });
  const DecodeOptions options{.height = 16, .width = 16};
  Reader strict = Batch(Decode(Parsed(path), options), {.size = kImages});
  EXPECT_EQ(strict.ReadNext().Rows(), 7);
  try {
    strict.ReadNext();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kDamaged) << error.what();
    EXPECT_EQ(error.status().place().record, 7);
  }
  Reader tolerant =
      Batch(Decode(Parsed(path, {.on_damage = OnDamage::kSkip}), options), {.size = kImages});
  EXPECT_EQ(tolerant.ReadNext().Rows(), kImages - 1);
  EXPECT_EQ(tolerant.Stats().damaged_records, 1);
}

TEST_F(DecodeTest, RandomCropsAreTheSameOnAnyNumberOfThreadsAndNewInEachEpoch) {
  const std::string path = MakeFile();
  const DecodeOptions options{
      .height = 16,
      .width = 16,
      .crop = [](const ImageSize& image,
                 const MapInput& input) { return RandomCrop(image, {}, input.Draws()); },
      .seed = 7};
  const auto pixels = [&](int threads, std::uint32_t epoch) {
    Reader images = Parsed(path, {.first_epoch = epoch, .threads = threads});
    const Instance batch = Batch(Decode(std::move(images), options), {.size = kImages}).ReadNext();
    const auto values = batch["jpg"].Values<std::uint8_t>();
    return std::vector(values.begin(), values.end());
  };
  const auto first = pixels(1, 0);
  EXPECT_EQ(pixels(4, 0), first);
  EXPECT_NE(pixels(4, 1), first);
}

TEST_F(DecodeTest, AMapMayFollow) {
  Reader brightness = Map(Decode(Parsed(MakeFile()), {.height = 2, .width = 2, .channels = 1}),
                          {{"sum", kInt32, {}}},
                          [](const MapInput& input, RowWriter& row) {
                            std::int32_t sum = 0;
                            for (const auto pixel : (*input.fields)["jpg"].Values<std::uint8_t>()) {
                              sum += pixel;
                            }
                            std::memcpy(row.Fixed(0).data(), &sum, sizeof(sum));
                          },
                          {.keep = {"cls"}});
  const Instance batch = Batch(brightness, {.size = kImages}).ReadNext();
  for (const std::int32_t sum : batch["sum"].Values<std::int32_t>()) EXPECT_GT(sum, 100);
  EXPECT_EQ(batch["cls"].Values<std::int64_t>().back(), kImages - 1);
}

TEST_F(DecodeTest, OptionsThatCannotWorkAreRefusedWithTheirRemedy) {
  const std::string path = MakeFile();
  const auto refused = [&](const DecodeOptions& options) { return Refused(options, Parsed(path)); };
  EXPECT_NE(refused({.field = "png"}).find(R"("jpg", "cls", "note")"), std::string::npos);
  EXPECT_NE(refused({.field = "cls"}).find("no ragged one of uint8"), std::string::npos);
  EXPECT_NE(refused({.height = 0}).find("1 to 65500"), std::string::npos);
  EXPECT_NE(refused({.width = 65'501}).find("1 to 65500"), std::string::npos);
  EXPECT_NE(refused({.channels = 4}).find("3 channels (colour) or 1 (gray)"), std::string::npos);
  EXPECT_NE(refused({.shorter_side = 223}).find("less than a row's"), std::string::npos);
  const CropFunction crop = [](const ImageSize&, const MapInput&) { return Crop{}; };
  EXPECT_NE(refused({.shorter_side = 256, .crop = crop}).find("one of them"), std::string::npos);
  EXPECT_EQ(refused({.crop = crop}), "");
}

TEST(RandomCropTest, ItHasTheAreaAndTheProportionsAndIsTheSameForTheSameNumbers) {
  const ImageSize image{300, 400};
  int flipped = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const RowDraws draw(seed);
    const Crop crop = RandomCrop(image, {.min_area = 0.2, .max_area = 0.5}, draw);
    const double area = crop.height * crop.width / (300 * 400), ratio = crop.width / crop.height;
    EXPECT_TRUE(area > 0.19 && area < 0.51) << area;
    EXPECT_TRUE(ratio > 0.74 && ratio < 1.35) << ratio;
    EXPECT_TRUE(crop.top >= 0 && crop.top + crop.height <= 300) << crop.top;
    EXPECT_TRUE(crop.left >= 0 && crop.left + crop.width <= 400) << crop.left;
    EXPECT_EQ(crop.left, std::floor(crop.left));
    flipped += crop.flipped ? 1 : 0;
    const Crop again = RandomCrop(image, {.min_area = 0.2, .max_area = 0.5}, draw);
    EXPECT_EQ(std::memcmp(&crop, &again, sizeof(double) * 4), 0);
  }
  EXPECT_TRUE(flipped > 400 && flipped < 600) << flipped;
}

TEST(RandomCropTest, AnImageThatNoDrawFitsGivesItsLargestCentre) {
  const RowDraws draw;
  const Crop crop = RandomCrop({10, 1000}, {.flip = 0}, draw);
  EXPECT_EQ(crop.height, 10);
  EXPECT_EQ(crop.width, 13);
  EXPECT_EQ(crop.left, 493);
  EXPECT_FALSE(crop.flipped);
  EXPECT_THROW(RandomCrop({10, 10}, {.min_area = 0}, draw), Error);
  EXPECT_THROW(RandomCrop({10, 10}, {.max_area = 1.5}, draw), Error);
  EXPECT_THROW(RandomCrop({10, 10}, {.min_ratio = 2, .max_ratio = 1}, draw), Error);
}

}  // namespace
}  // namespace ringfeed::jpeg
