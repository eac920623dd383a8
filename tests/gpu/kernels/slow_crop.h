#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringfeed {

/// Images [rows, height, width, channels], of which crop_height by crop_width pixels are taken.
struct SlowCrop {
  std::size_t height = 1;
  std::size_t width = 1;
  std::size_t channels = 1;
  std::size_t crop_height = 1;
  std::size_t crop_width = 1;

  std::size_t image_bytes() const { return height * width * channels; }

  /// A pixel at a time. `places` are top, left and whether to mirror, of each row; none: the
  /// middle.
  std::vector<std::uint8_t> Of(std::span<const std::uint8_t> images,
                               std::span<const std::int32_t> places) const {
    std::vector<std::uint8_t> taken;
    for (std::size_t row = 0; row < images.size() / image_bytes(); ++row) {
      const auto place = places.empty() ? places : places.subspan(row * 3, 3);
      const std::size_t top = Begin(place, 0, height - crop_height);
      const std::size_t left = Begin(place, 1, width - crop_width);
      const bool mirrored = !place.empty() && place[2] != 0;
      for (std::size_t y = 0; y < crop_height; ++y) {
        std::vector<std::size_t> columns;
        for (std::size_t x = 0; x < crop_width; ++x) columns.push_back(left + x);
        if (mirrored) std::reverse(columns.begin(), columns.end());
        for (const std::size_t column : columns) {
          const std::size_t pixel = (row * height + top + y) * width + column;
          const auto bytes = images.subspan(pixel * channels, channels);
          taken.insert(taken.end(), bytes.begin(), bytes.end());
        }
      }
    }
    return taken;
  }

 private:
  static std::size_t Begin(std::span<const std::int32_t> place, std::size_t axis,
                           std::size_t last) {
    if (place.empty()) return last / 2;
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(place[axis], 0, static_cast<std::int64_t>(last)));
  }
};

}  // namespace ringfeed
