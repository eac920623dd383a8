#include "readers/jpeg/decode_row.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/refuse.h"
#include "readers/jpeg/image_rows.h"

namespace ringfeed::jpeg {

namespace {

constexpr std::size_t kPixel = ImageRows::kPixelBytes;

/// How the pixels of a line become those of another one: each is a mean of those about it, weighted
/// by a triangle as wide as two pixels of the line, or of the other one if that has wider ones.
class Weights {
 public:
  /// `outputs` pixels of [begin, begin + length) of a line of `pixels`.
  Weights(double begin, double length, std::size_t outputs, std::size_t pixels) : taps_(outputs) {
    const double scale = length / static_cast<double>(outputs);
    const double reach = std::max(scale, 1.0);
    stride_ = 2 * static_cast<std::size_t>(std::ceil(reach)) + 1;
    weights_.resize(outputs * stride_);
    for (std::size_t output = 0; output < outputs; ++output) {
      const double centre = begin + (static_cast<double>(output) + 0.5) * scale;
      const auto from = static_cast<std::size_t>(std::max(centre - reach + 0.5, 0.0));
      const auto to = std::min(static_cast<std::size_t>(centre + reach + 0.5), pixels);
      float* const weights = weights_.data() + output * stride_;
      float sum = 0;
      for (std::size_t pixel = from; pixel < to; ++pixel) {
        const double distance = std::abs(static_cast<double>(pixel) + 0.5 - centre);
        weights[pixel - from] = static_cast<float>(1 - std::min(distance / reach, 1.0));
        sum += weights[pixel - from];
      }
      for (std::size_t tap = 0; tap < to - from; ++tap) weights[tap] /= sum;
      taps_[output] = {from, to};
      most_ = std::max(most_, to - from);
    }
  }

  struct Taps {
    std::size_t from;
    std::size_t to;
  };
  std::size_t outputs() const { return taps_.size(); }
  const Taps& taps(std::size_t output) const { return taps_[output]; }
  /// Of its taps, then zeros up to most_taps().
  const float* weights(std::size_t output) const { return weights_.data() + output * stride_; }
  std::size_t most_taps() const { return most_; }
  std::size_t begin() const { return taps_.front().from; }
  std::size_t end() const { return taps_.back().to; }

 private:
  std::vector<Taps> taps_;
  std::size_t stride_ = 0;
  std::size_t most_ = 0;
  std::vector<float> weights_;
};

/// Resizes an image row by row: across as a row comes, down as soon as there are enough of them.
/// All is float, in an order that does not depend on the machine.
class Resizer {
 public:
  Resizer(const Weights& across, const Weights& down)
      : across_(across),
        down_(down),
        line_((across.end() - across.begin() + across.most_taps()) * kPixel),
        rows_(down.most_taps() * across.outputs() * kPixel),
        sums_(across.outputs() * kPixel),
        bytes_(across.outputs() * kPixel) {}

  void Run(ImageRows* image, bool flipped, std::size_t channels, std::byte* to) {
    std::size_t next = down_.begin();
    for (std::size_t y = 0; y < down_.outputs(); ++y) {
      for (; next < down_.taps(y).to; ++next) Across(image->Next(), flipped, RowOf(next));
      Down(y);
      for (std::size_t x = 0; x < across_.outputs(); ++x, to += channels) {
        std::memcpy(to, bytes_.data() + x * kPixel, channels);
      }
    }
  }

 private:
  float* RowOf(std::size_t row) { return rows_.data() + row % down_.most_taps() * sums_.size(); }

  void Across(const std::uint8_t* pixels, bool flipped, float* to) {
    const std::size_t count = (across_.end() - across_.begin()) * kPixel;
    for (std::size_t i = 0; i < count; ++i) line_[i] = pixels[i];
    const std::size_t taps = across_.most_taps();
    for (std::size_t x = 0; x < across_.outputs(); ++x) {
      const float* const weights = across_.weights(x);
      const float* from = line_.data() + (across_.taps(x).from - across_.begin()) * kPixel;
      float sum[kPixel] = {};
      for (std::size_t tap = 0; tap < taps; ++tap, from += kPixel) {
        for (std::size_t channel = 0; channel < kPixel; ++channel) {
          sum[channel] += weights[tap] * from[channel];
        }
      }
      std::memcpy(to + (flipped ? across_.outputs() - 1 - x : x) * kPixel, sum, sizeof(sum));
    }
  }

  void Down(std::size_t y) {
    std::fill(sums_.begin(), sums_.end(), 0.5F);  // is cut off
    const auto [from, to] = down_.taps(y);
    for (std::size_t row = from; row < to; ++row) {
      const float weight = down_.weights(y)[row - from];
      const float* const values = RowOf(row);
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += weight * values[i];
    }
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      bytes_[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(sums_[i]));
    }
  }

  const Weights& across_;
  const Weights& down_;
  std::vector<float> line_;  ///< zeros after its end, for taps of no weight
  std::vector<float> rows_;  ///< the last ones, in turn
  std::vector<float> sums_;
  std::vector<std::uint8_t> bytes_;
};

void CheckCrop(const Crop& crop, const ImageSize& image) {
  constexpr double kSlack = 1e-6;  // of a pixel, for sums that are rounded
  const auto within = [](double begin, double length, std::size_t size) {
    return begin >= -kSlack && length > 0 && begin + length <= static_cast<double>(size) + kSlack;
  };
  if (within(crop.top, crop.height, image.height) && within(crop.left, crop.width, image.width)) {
    return;
  }
  Refuse("a crop from " + std::to_string(crop.top) + ", " + std::to_string(crop.left) + " of " +
         std::to_string(crop.height) + " by " + std::to_string(crop.width) +
         " pixels is not within an image of " + std::to_string(image.height) + " by " +
         std::to_string(image.width));
}

}  // namespace

Crop CenterCrop(const ImageSize& image, const DecodeOptions& options) {
  const auto height = static_cast<double>(image.height);
  const auto width = static_cast<double>(image.width);
  const auto row_height = static_cast<double>(options.height);
  const auto row_width = static_cast<double>(options.width);
  const double scale = options.shorter_side != 0
                           ? static_cast<double>(options.shorter_side) / std::min(height, width)
                           : std::max(row_height / height, row_width / width);
  Crop crop{.height = row_height / scale, .width = row_width / scale};
  crop.top = (height - crop.height) / 2;
  crop.left = (width - crop.width) / 2;
  return crop;
}

void DecodeRow(std::span<const std::byte> encoded, const DecodeOptions& options,
               const std::function<Crop(const ImageSize& image)>& crop_of,
               std::span<std::byte> pixels) {
  ImageRows image(encoded, options.max_pixels);
  const Crop crop = crop_of(image.size());
  CheckCrop(crop, image.size());
  unsigned eighths = 1;
  while (eighths < 8 && (crop.height * eighths < static_cast<double>(8 * options.height) ||
                         crop.width * eighths < static_cast<double>(8 * options.width))) {
    eighths *= 2;
  }
  const double scale = eighths / 8.0;
  const ImageSize scaled = image.Scale(eighths, options.channels == 1);
  const Weights across(crop.left * scale, crop.width * scale, options.width, scaled.width);
  const Weights down(crop.top * scale, crop.height * scale, options.height, scaled.height);
  image.Start({down.begin(), across.begin(), down.end(), across.end()});
  Resizer(across, down).Run(&image, crop.flipped, options.channels, pixels.data());
  image.Finish();
}

}  // namespace ringfeed::jpeg
