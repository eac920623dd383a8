// One image to a row: the pixels are libjpeg's, and what is damaged is said to be.
#include "readers/jpeg/decode_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/jpeg/made_jpeg.h"

namespace ringfeed::jpeg {
namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels Decoded(const std::string& bytes, const DecodeOptions& options, const Crop& crop) {
  Pixels pixels(options.height * options.width * options.channels);
  DecodeRow(
      std::as_bytes(std::span(bytes)), options, [&](const ImageSize&) { return crop; },
      std::as_writable_bytes(std::span(pixels)));
  return pixels;
}

/// A part of whole pixels at its own size.
Pixels Part(const std::string& bytes, std::size_t top, std::size_t left, std::size_t height,
            std::size_t width, unsigned eighths = 8, std::size_t channels = 3) {
  const double scale = 8.0 / eighths;
  const auto whole = [&](std::size_t pixels) { return static_cast<double>(pixels) * scale; };
  return Decoded(bytes, {.height = height, .width = width, .channels = channels},
                 {whole(top), whole(left), whole(height), whole(width)});
}

Pixels Cut(const Pixels& image, std::size_t line, std::size_t top, std::size_t left,
           std::size_t height, std::size_t width, std::size_t channels = 3) {
  Pixels cut;
  for (std::size_t y = top; y < top + height; ++y) {
    const auto from = image.begin() + static_cast<std::ptrdiff_t>((y * line + left) * channels);
    cut.insert(cut.end(), from, from + static_cast<std::ptrdiff_t>(width * channels));
  }
  return cut;
}

std::vector<Encoding> AllKinds() {
  return {{.across = 1, .down = 1},
          {.across = 2, .down = 1},
          {.across = 1, .down = 2},
          {.across = 2, .down = 2},
          {.across = 4, .down = 1},
          {.across = 2, .down = 2, .progressive = true},
          {.across = 2, .down = 2, .restart_rows = 1},
          {.width = 97, .height = 71, .across = 2, .down = 2},
          {.from = JCS_GRAYSCALE, .across = 1, .down = 1}};
}

/// What a damaged image says; "" for one that is decoded.
std::string Damage(const std::string& bytes,
                   const DecodeOptions& options = {.height = 20, .width = 20}) {
  Pixels pixels(options.height * options.width * options.channels);
  try {
    DecodeRow(
        std::as_bytes(std::span(bytes)), options,
        [&](const ImageSize& image) { return CenterCrop(image, options); },
        std::as_writable_bytes(std::span(pixels)));
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kDamaged) << error.what();
    return error.status().message();
  }
  return "";
}

TEST(DecodeRowTest, APartHasThePixelsThatTheWholeImageHasThere) {
  std::minstd_rand random(7);
  for (const Encoding& kind : AllKinds()) {
    const std::string bytes = MadeJpeg(kind);
    const auto width = static_cast<std::size_t>(kind.width);
    const auto height = static_cast<std::size_t>(kind.height);
    const Pixels whole = WholePixels(bytes, 8, 3);
    EXPECT_EQ(Part(bytes, 0, 0, height, width), whole);
    for (int i = 0; i < 100; ++i) {
      const std::size_t rows = 1 + random() % height, columns = 1 + random() % width;
      const std::size_t top = random() % (height - rows + 1),
                        left = random() % (width - columns + 1);
      ASSERT_EQ(Part(bytes, top, left, rows, columns), Cut(whole, width, top, left, rows, columns))
          << kind.across << " by " << kind.down << ": " << top << ", " << left << ", " << rows
          << " by " << columns;
    }
  }
}

TEST(DecodeRowTest, APartAtAHalfAQuarterOrAnEighthHasThePixelsOfLibjpeg) {
  std::minstd_rand random(8);
  for (const Encoding& kind : AllKinds()) {
    if (kind.width % 8 != 0) continue;  // whose last pixel at an eighth is less than one
    const std::string bytes = MadeJpeg(kind);
    for (const unsigned eighths : {1U, 2U, 4U}) {
      const Pixels whole = WholePixels(bytes, eighths, 3);
      const std::size_t width = 96 * eighths / 8, height = 72 * eighths / 8;
      for (int i = 0; i < 50; ++i) {
        const std::size_t rows = 1 + random() % height, columns = 1 + random() % width;
        const std::size_t top = random() % (height - rows + 1),
                          left = random() % (width - columns + 1);
        ASSERT_EQ(Part(bytes, top, left, rows, columns, eighths),
                  Cut(whole, width, top, left, rows, columns))
            << kind.across << " by " << kind.down << " at " << eighths << ": " << top << ", "
            << left << ", " << rows << " by " << columns;
      }
    }
  }
}

/// The mean of the pixels about one place, by a triangle, as docs say.
double Mean(const Pixels& image, std::size_t line, std::size_t lines, const Crop& crop,
            const DecodeOptions& options, std::size_t y, std::size_t x, std::size_t channel) {
  const double down = crop.height / static_cast<double>(options.height);
  const double across = crop.width / static_cast<double>(options.width);
  const double row = crop.top + (static_cast<double>(y) + 0.5) * down;
  const double column = crop.left + (static_cast<double>(x) + 0.5) * across;
  const auto weight = [](double at, double centre, double scale) {
    return std::max(0.0, 1 - std::abs(at + 0.5 - centre) / std::max(scale, 1.0));
  };
  double sum = 0, total = 0;
  constexpr double kFar = 3;  // where the weights are 0
  const auto first = [](double centre) {
    return static_cast<std::size_t>(std::max(0.0, centre - kFar));
  };
  for (std::size_t i = first(row); i < std::min(lines, first(row + 2 * kFar)); ++i) {
    for (std::size_t j = first(column); j < std::min(line, first(column + 2 * kFar)); ++j) {
      const double w = weight(static_cast<double>(i), row, down) *
                       weight(static_cast<double>(j), column, across);
      total += w;
      sum += w * image[(i * line + j) * 3 + channel];
    }
  }
  return sum / total;
}

TEST(DecodeRowTest, ResizedPixelsAreMeansByATriangle) {
  const Encoding kind;
  const std::string bytes = MadeJpeg(kind);
  const Pixels whole = WholePixels(bytes, 8, 3);
  const DecodeOptions options{.height = 40, .width = 50};
  for (const Crop& crop : {Crop{0, 0, 72, 96}, Crop{3.3, 20.7, 61.2, 60.1}, Crop{60, 80, 12, 16}}) {
    const Pixels resized = Decoded(bytes, options, crop);
    Crop flipped = crop;
    flipped.flipped = true;
    const Pixels mirrored = Decoded(bytes, options, flipped);
    for (std::size_t y = 0; y < options.height; ++y) {
      for (std::size_t x = 0; x < options.width; ++x) {
        for (std::size_t c = 0; c < 3; ++c) {
          const std::size_t at = (y * options.width + x) * 3 + c;
          const double mean = Mean(whole, 96, 72, crop, options, y, x, c);
          ASSERT_NEAR(resized[at], mean, 0.51) << y << ", " << x;
          ASSERT_EQ(mirrored[(y * options.width + options.width - 1 - x) * 3 + c], resized[at]);
        }
      }
    }
  }
}

TEST(DecodeRowTest, GrayIsTheBrightnessThatLibjpegReads) {
  for (const Encoding& kind :
       {Encoding{}, Encoding{.from = JCS_GRAYSCALE, .across = 1, .down = 1}}) {
    const std::string bytes = MadeJpeg(kind);
    EXPECT_EQ(Part(bytes, 9, 11, 50, 60, 8, 1),
              Cut(WholePixels(bytes, 8, 1), 96, 9, 11, 50, 60, 1));
  }
}

TEST(DecodeRowTest, InksOfAdobesAreInverted) {
  const std::string bytes = MadeJpeg({.from = JCS_CMYK, .across = 1, .down = 1});
  const Pixels ink = WholePixels(bytes, 8, 4);
  const Pixels colours = Part(bytes, 0, 0, 72, 96);
  const Pixels gray = Part(bytes, 0, 0, 72, 96, 8, 1);
  for (std::size_t i = 0; i < gray.size(); ++i) {
    double brightness = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      const double colour = ink[4 * i + c] * ink[4 * i + 3] / 255.0;
      ASSERT_NEAR(colours[3 * i + c], colour, 0.51);
      brightness += colour * std::vector{0.299, 0.587, 0.114}[c];
    }
    ASSERT_NEAR(gray[i], brightness, 2);
  }
}

TEST(DecodeRowTest, ACentreIsAsLargeAsItCanBeOrOfAResizedImage) {
  const Crop largest = CenterCrop({300, 500}, {.height = 100, .width = 100});
  EXPECT_DOUBLE_EQ(largest.top, 0);
  EXPECT_DOUBLE_EQ(largest.left, 100);
  EXPECT_DOUBLE_EQ(largest.height, 300);
  EXPECT_DOUBLE_EQ(largest.width, 300);
  const Crop resized = CenterCrop({300, 500}, {.height = 100, .width = 50, .shorter_side = 150});
  EXPECT_DOUBLE_EQ(resized.top, 50);
  EXPECT_DOUBLE_EQ(resized.left, 200);
  EXPECT_DOUBLE_EQ(resized.height, 200);
  EXPECT_DOUBLE_EQ(resized.width, 100);
}

TEST(DecodeRowTest, ACropOutsideTheImageIsRefusedAsAMistake) {
  const std::string bytes = MadeJpeg({});
  const double nan = std::nan("");
  for (const Crop& crop : {Crop{0, 0, 73, 96}, Crop{-1, 0, 10, 10}, Crop{0, 90, 10, 10},
                           Crop{0, 0, 0, 10}, Crop{0, 0, nan, 10}, Crop{nan, 0, 10, 10}}) {
    try {
      Decoded(bytes, {.height = 8, .width = 8}, crop);
      FAIL() << crop.top << ", " << crop.left;
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument) << error.what();
    }
  }
}

TEST(DecodeRowTest, EveryTruncationIsDamageWhereverTheCropIs) {
  for (Encoding kind : AllKinds()) {
    kind.width = 48;
    kind.height = 40;
    const std::string bytes = MadeJpeg(kind);
    ASSERT_EQ(Damage(bytes), "");
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::string cut = bytes.substr(0, size);
      ASSERT_NE(Damage(cut), "") << size << " of " << bytes.size();
      // Its end is far from a crop of the first line.
      ASSERT_THROW(Part(cut, 0, 0, 1, 48), Error) << size << " of " << bytes.size();
    }
  }
}

TEST(DecodeRowTest, ChangedBytesGivePixelsOrDamageAndNothingElse) {
  std::size_t damaged = 0, all = 0;
  for (Encoding kind : AllKinds()) {
    kind.width = 48;
    kind.height = 40;
    const std::string bytes = MadeJpeg(kind);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      for (const char change : {'\x01', '\x80', '\xFF'}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ change);
        // A header may ask for as much as it likes: more is refused before memory is taken.
        damaged += Damage(changed, {.height = 20, .width = 20, .max_pixels = 4096}).empty() ? 0 : 1;
        ++all;
      }
    }
  }
  EXPECT_GT(damaged, all / 10);
}

TEST(DecodeRowTest, AnImageOfMorePixelsThanAllowedIsDamaged) {
  std::string bytes = MadeJpeg({});
  const DecodeOptions exact{.height = 20, .width = 20, .max_pixels = 96 * 72};
  EXPECT_EQ(Damage(bytes, exact), "");
  const DecodeOptions less{.height = 20, .width = 20, .max_pixels = 96 * 72 - 1};
  EXPECT_EQ(Damage(bytes, less),
            "the JPEG has 96 by 72 pixels, which is more than max_pixels, 6911");
  const std::size_t header = bytes.find("\xFF\xC0");
  bytes.replace(header + 5, 4, "\xFF\xDC\xFF\xDC");
  EXPECT_EQ(Damage(bytes, {}),
            "the JPEG has 65500 by 65500 pixels, which is more than max_pixels, 67108864");
}

TEST(DecodeRowTest, HundredsOfScansAreDamageNotAnHour) {
  const Encoding kind{.from = JCS_GRAYSCALE, .across = 1, .down = 1, .many_scans = true};
  EXPECT_EQ(Damage(MadeJpeg(kind)), "the JPEG is damaged: it has hundreds of scans");
}

TEST(DecodeRowTest, BytesThatNoPixelNeedsAreNoDamage) {
  const std::string bytes = MadeJpeg({});
  std::string unused = bytes;
  unused.insert(bytes.size() - 2, "unused");
  EXPECT_EQ(Damage(unused), "");
  EXPECT_EQ(Damage(bytes + "unused"), "");
  std::string revision = bytes;
  revision[bytes.find("JFIF") + 5] = 9;
  EXPECT_EQ(Damage(revision), "");
}

}  // namespace
}  // namespace ringfeed::jpeg
