#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "readers/jpeg/decode_row.h"

namespace ringfeed::jpeg {

namespace {

void CheckOptions(const DecodeOptions& options) {
  constexpr std::size_t kMostPixels = 65'500;  // libjpeg's
  const auto is_side = [](std::size_t side) { return side > 0 && side <= kMostPixels; };
  if (!is_side(options.height) || !is_side(options.width)) {
    Refuse("a row of decoded JPEGs has 1 to 65500 pixels in height and in width, not " +
           std::to_string(options.height) + " and " + std::to_string(options.width));
  }
  if (options.channels != 1 && options.channels != 3) {
    Refuse("a JPEG is decoded to 3 channels (colour) or 1 (gray), not to " +
           std::to_string(options.channels));
  }
  if (options.shorter_side != 0 && options.shorter_side < std::max(options.height, options.width)) {
    Refuse("shorter_side, " + std::to_string(options.shorter_side) +
           ", is less than a row's height or width: a crop of it would leave the image");
  }
  if (options.shorter_side != 0 && options.crop) {
    Refuse("shorter_side says how the centre is taken, and crop chooses instead: give one of them");
  }
}

}  // namespace

Reader Decode(Reader input, const DecodeOptions& options) {
  CheckOptions(options);
  std::vector<FieldSpec> fields = input.fields();
  MapOptions map{.seed = options.seed, .name = "jpeg::Decode"};
  std::string names;
  std::size_t field = fields.size();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == options.field) field = i;
    if (fields[i].name != options.field) map.keep.push_back(fields[i].name);
    names += (i == 0 ? "\"" : ", \"") + fields[i].name + "\"";
  }
  if (field == fields.size()) {
    Refuse("there is no field \"" + options.field + "\" with JPEGs; there are " + names);
  }
  FieldSpec row = std::move(fields[field]);
  if (row.dtype != kUInt8 || row.shape != Shape{-1}) {
    Refuse("the field \"" + row.name + "\" is no ragged one of uint8, as a JPEG's bytes are");
  }
  const auto dim = [](std::size_t size) { return static_cast<std::int64_t>(size); };
  row.shape = {dim(options.height), dim(options.width), dim(options.channels)};
  const auto decode = [options](const MapInput& from, RowWriter& to) {
    const auto crop_of = [&](const ImageSize& image) {
      return options.crop ? options.crop(image, from) : CenterCrop(image, options);
    };
    if (from.fields == nullptr) {
      DecodeRow(from.record.bytes(), options, crop_of, to.Fixed(0));
    } else {
      DecodeRow(std::as_bytes((*from.fields)[options.field].Values<std::uint8_t>()), options,
                crop_of, to.Fixed(0));
    }
  };
  return Map(std::move(input), {std::move(row)}, decode, map);
}

Crop RandomCrop(const ImageSize& image, const RandomCropOptions& options, const RowDraws& draws) {
  const bool areas =
      options.min_area > 0 && options.min_area <= options.max_area && options.max_area <= 1;
  const bool ratios = options.min_ratio > 0 && options.min_ratio <= options.max_ratio &&
                      std::isfinite(options.max_ratio);
  if (!areas || !ratios)
    Refuse("a random crop has 0 < min_area <= max_area <= 1 and 0 < min_ratio <= max_ratio");
  std::uint64_t drawn = 0;
  const auto uniform = [&] {  // [0, 1)
    return static_cast<double>(draws(drawn++) >> 11) * 0x1p-53;
  };
  const auto height = static_cast<double>(image.height);
  const auto width = static_cast<double>(image.width);
  Crop crop{.flipped = uniform() < options.flip};
  for (int tries = 0; tries < 10; ++tries) {
    const double area = height * width * std::lerp(options.min_area, options.max_area, uniform());
    const double ratio =
        std::exp(std::lerp(std::log(options.min_ratio), std::log(options.max_ratio), uniform()));
    crop.width = std::round(std::sqrt(area * ratio));
    crop.height = std::round(std::sqrt(area / ratio));
    if (crop.width < 1 || crop.height < 1 || crop.width > width || crop.height > height) continue;
    crop.top = std::floor(uniform() * (height - crop.height + 1));
    crop.left = std::floor(uniform() * (width - crop.width + 1));
    return crop;
  }
  const double ratio = std::clamp(width / height, options.min_ratio, options.max_ratio);
  crop.width = std::min(width, std::max(1.0, std::round(height * ratio)));
  crop.height = std::min(height, std::max(1.0, std::round(width / ratio)));
  crop.top = std::floor((height - crop.height) / 2);
  crop.left = std::floor((width - crop.width) / 2);
  return crop;
}

}  // namespace ringfeed::jpeg
