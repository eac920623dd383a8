#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

/// JPEG images to pixels, by libjpeg-turbo. It is the component ringfeed::jpeg: a program links
/// that (pkg-config: ringfeed-jpeg). Nothing of libjpeg is needed to include this.
namespace ringfeed::jpeg {

/// The size of an image in pixels.
struct ImageSize {
  std::size_t height = 0;
  std::size_t width = 0;
};

/// The part of an image that is resized to a row. It may begin and end within a pixel.
struct Crop {
  double top = 0;   ///< pixels from the upper edge of the image to the part
  double left = 0;  ///< and from the left one
  double height = 0;
  double width = 0;
  bool flipped = false;  ///< left and right are exchanged
};

/// Says which part of an image becomes a row; `input` has the row's random numbers and the other
/// fields. Called by several threads at once. A part that is not within the image is the caller's
/// mistake (kUserError), and so is what it throws, but for an Error of kDamaged.
using CropFunction = std::function<Crop(const ImageSize& image, const MapInput& input)>;

/// How JPEG images become rows of one size.
struct DecodeOptions {
  std::string field = "jpg";  ///< what has the JPEG's bytes: uint8, ragged
  std::size_t height = 224;   ///< of a row, in pixels, at most 65,500
  std::size_t width = 224;
  /// 3: red, green, blue; 1: brightness. A gray image has three equal channels, one of CMYK is
  /// converted without a colour profile.
  std::size_t channels = 3;
  /// The shorter side of the image is resized to this, and the centre of that taken; at least
  /// `height` and `width`. 0: the centre of the image is as large as a row's proportions let it be.
  std::size_t shorter_side = 0;
  CropFunction crop{};     ///< chooses instead, as for augmentation
  std::uint64_t seed = 0;  ///< of the draws that `crop` sees
  /// Images of more pixels are damaged. A progressive image takes up to 8 bytes for each while it
  /// is decoded, others take a few rows.
  std::size_t max_pixels = std::size_t{1} << 26;
};

/// Decodes JPEG images in Map's place: by several threads, in order, and straight into the batch if
/// no other field is ragged. The field becomes one of uint8 [height, width, channels] and the first
/// one; all others follow, unchanged. A chain without Parse has its records' bytes as the field
/// "record".
///
/// libjpeg decodes an image at an eighth, a quarter, a half or all of its size, whichever is the
/// smallest that has the row's pixels; then the part is resized by a triangle as wide as two of the
/// row's pixels (bilinear, with antialiasing). Of the rest of the image no pixel is made, but its
/// bytes are checked: whether an image is damaged does not depend on its crop. Damage is whatever
/// libjpeg refuses or warns of, but for unused bytes and an unknown JFIF revision, which take no
/// pixel away. The orientation that a camera notes (EXIF) is not applied. Pixels are the same on
/// any number of threads. A broken image is a damaged record, and the reader's policy decides.
///
/// Throws Error if there is no such field, and for sizes that cannot work.
Reader Decode(Reader input, const DecodeOptions& options = {});

/// How much of an image a random part has, and of which proportions.
struct RandomCropOptions {
  double min_area = 0.08;  ///< of the image's
  double max_area = 1;
  double min_ratio = 3.0 / 4;  ///< width to height; drawn so that r is as likely as 1 / r
  double max_ratio = 4.0 / 3;
  double flip = 0.5;  ///< how often left and right are exchanged
};

/// A random part of an image, of whole pixels: for a CropFunction, with MapInput::Draws. The same
/// draws give the same part. If ten tries do not fit the image it is the largest centre whose
/// proportions are allowed. Throws Error for options that cannot work.
Crop RandomCrop(const ImageSize& image, const RandomCropOptions& options, const RowDraws& draws);

}  // namespace ringfeed::jpeg
