// A decoder of gray JPEGs by libjpeg-turbo, for training data that nobody vouches for.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
// It wants <cstdio> before it.
#include <jpeglib.h>

// Decodes one JPEG. By itself libjpeg ends the program where it fails; here it goes back to Decode.
// Thread safety: one thread at a time; several decoders work beside each other.
class GrayJpeg {
 public:
  GrayJpeg() = default;
  ~GrayJpeg() { jpeg_destroy_decompress(&jpeg_); }
  GrayJpeg(const GrayJpeg&) = delete;
  GrayJpeg& operator=(const GrayJpeg&) = delete;

  // Writes width * height bytes to `pixels`, row by row. Throws std::runtime_error for a JPEG that
  // is damaged and for one that is no gray image of that size, before any memory is taken for its
  // pixels. May be called once.
  void Decode(std::span<const std::uint8_t> jpeg, std::uint32_t width, std::uint32_t height,
              std::uint8_t* pixels) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = GoBack;
    errors_.emit_message = [](j_common_ptr decoder, int level) {
      if (level < 0) GoBack(decoder);  // a warning: libjpeg would make up what is damaged
    };
    // longjmp calls no destructor: from here on nothing is made that has one.
    if (setjmp(back_) != 0) throw std::runtime_error(why_);
    jpeg_create_decompress(&jpeg_);
    jpeg_mem_src(&jpeg_, jpeg.data(), jpeg.size());
    jpeg_read_header(&jpeg_, TRUE);
    if (jpeg_.image_width != width || jpeg_.image_height != height || jpeg_.num_components != 1) {
      std::snprintf(why_, sizeof(why_),
                    "a JPEG of %u by %u pixels and %d channels, not of %u by %u and 1",
                    jpeg_.image_width, jpeg_.image_height, jpeg_.num_components, width, height);
      throw std::runtime_error(why_);
    }
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < height) {
      JSAMPROW row = pixels + std::size_t{jpeg_.output_scanline} * width;
      jpeg_read_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_decompress(&jpeg_);
  }

 private:
  [[noreturn]] static void GoBack(j_common_ptr decoder) {
    auto* const jpeg = static_cast<GrayJpeg*>(decoder->client_data);
    decoder->err->format_message(decoder, jpeg->why_);
    std::longjmp(jpeg->back_, 1);
  }

  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf back_{};
  char why_[JMSG_LENGTH_MAX] = "";
};
