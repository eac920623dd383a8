#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
// It wants <cstdio> before it.
#include <jpeglib.h>

#include <cstdio>

namespace ringfeed::jpeg {

/// How a test's image is encoded.
struct Encoding {
  int width = 96;
  int height = 72;
  J_COLOR_SPACE from = JCS_RGB;  ///< of the pixels that are made: JCS_GRAYSCALE, JCS_CMYK
  int across = 2;                ///< pixels that share a value of colour
  int down = 2;
  bool progressive = false;
  int restart_rows = 0;
  bool many_scans = false;
};

/// A smooth picture with edges, as photographs have.
std::vector<std::uint8_t> MadePixels(const Encoding& encoding, int channels);
/// It as a JPEG.
std::string MadeJpeg(const Encoding& encoding);
/// All pixels of a JPEG at eighths / 8 of its size, as libjpeg itself makes them, in `channels`.
std::vector<std::uint8_t> WholePixels(const std::string& jpeg, unsigned eighths, int channels);

}  // namespace ringfeed::jpeg
