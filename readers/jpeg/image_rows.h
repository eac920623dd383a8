#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>
// It wants <cstdio> before it.
#include <jpeglib.h>

#include "ringfeed/jpeg.h"

namespace ringfeed::jpeg {

/// A rectangle of whole pixels.
struct Region {
  std::size_t top = 0;
  std::size_t left = 0;
  std::size_t bottom = 0;  ///< not of it any more
  std::size_t right = 0;
};

/// One JPEG, row by row. By itself libjpeg ends the program where it fails; here that is an Error.
/// Thread safety: one thread at a time; several work beside each other.
class ImageRows {
 public:
  static constexpr std::size_t kPixelBytes = 4;  ///< of a row's pixel, the last one unused

  /// Reads the header; `encoded` must stay. Throws Error(kDamaged), as all that follows.
  ImageRows(std::span<const std::byte> encoded, std::size_t max_pixels);
  ~ImageRows() { jpeg_destroy_decompress(&jpeg_); }
  ImageRows(const ImageRows&) = delete;
  ImageRows& operator=(const ImageRows&) = delete;

  ImageSize size() const { return {jpeg_.image_height, jpeg_.image_width}; }
  /// The image is decoded at eighths / 8 (1, 2, 4 or 8) of its size, which is returned: a part of a
  /// pixel at an edge counts as one. Once, before the others.
  ImageSize Scale(unsigned eighths, bool gray);
  /// Makes `region`'s pixels alone.
  void Start(const Region& region);
  /// The region's next row, valid until the next call.
  const std::uint8_t* Next();
  /// Reads what is behind the region: is it whole?
  void Finish();

 private:
  template <typename Call>
  void Guarded(Call&& call) {
    // longjmp calls no destructor: `call` makes nothing that has one.
    if (setjmp(back_) != 0) ThrowFailure();
    call();
  }
  static void GoBack(j_common_ptr jpeg);
  [[noreturn]] void ThrowFailure();
  void ReadLine();
  void SkipTo(std::size_t line);

  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_{};
  bool gray_ = false;
  std::size_t left_ = 0;            ///< pixels in a line before the region
  std::size_t width_ = 0;           ///< of the region
  std::vector<std::uint8_t> line_;  ///< as libjpeg gives it
  std::vector<std::uint8_t> row_;   ///< of kPixelBytes, if the line is not
};

}  // namespace ringfeed::jpeg
