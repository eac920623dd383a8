#include "readers/jpeg/image_rows.h"

#include <jerror.h>

#include <algorithm>
#include <new>
#include <string>

#include "base/refuse.h"

namespace ringfeed::jpeg {

namespace {

/// A progressive image of ten scans is usual; each costs as much time as all the image's pixels.
constexpr int kMostScans = 100;
/// libjpeg makes up chroma next to a region's edge, other than in a whole image.
constexpr std::size_t kMargin = 2;

bool TakesNoPixelAway(int message) {
  return message == JWRN_EXTRANEOUS_DATA || message == JWRN_JFIF_MAJOR;
}

std::uint8_t Product(unsigned a, unsigned b) {
  return static_cast<std::uint8_t>((a * b + 127) / 255);
}

}  // namespace

void ImageRows::GoBack(j_common_ptr jpeg) {
  std::longjmp(static_cast<ImageRows*>(jpeg->client_data)->back_, 1);
}

void ImageRows::ThrowFailure() {
  if (errors_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  if (jpeg_.input_scan_number > kMostScans) {
    Refuse(StatusCode::kDamaged, "the JPEG is damaged: it has hundreds of scans");
  }
  char why[JMSG_LENGTH_MAX];
  errors_.format_message(reinterpret_cast<j_common_ptr>(&jpeg_), why);
  Refuse(StatusCode::kDamaged, std::string("the JPEG is damaged: ") + why);
}

ImageRows::ImageRows(std::span<const std::byte> encoded, std::size_t max_pixels) {
  jpeg_.err = jpeg_std_error(&errors_);
  jpeg_.client_data = this;
  errors_.error_exit = GoBack;
  errors_.emit_message = [](j_common_ptr jpeg, int level) {
    if (level < 0 && !TakesNoPixelAway(jpeg->err->msg_code)) GoBack(jpeg);
  };
  progress_.progress_monitor = [](j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMostScans) GoBack(jpeg);
  };
  struct Guard {  // of a constructor that throws
    jpeg_decompress_struct* jpeg;
    ~Guard() {
      if (jpeg != nullptr) jpeg_destroy_decompress(jpeg);
    }
  } guard{&jpeg_};
  Guarded([&] {
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
    jpeg_read_header(&jpeg_, TRUE);
  });
  if (std::size_t{jpeg_.image_width} * jpeg_.image_height > max_pixels) {
    Refuse(StatusCode::kDamaged, "the JPEG has " + std::to_string(jpeg_.image_width) + " by " +
                                     std::to_string(jpeg_.image_height) +
                                     " pixels, which is more than max_pixels, " +
                                     std::to_string(max_pixels));
  }
  guard.jpeg = nullptr;
}

ImageSize ImageRows::Scale(unsigned eighths, bool gray) {
  gray_ = gray;
  const bool cmyk = jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
  jpeg_.out_color_space = cmyk ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_EXT_RGBX;
  jpeg_.scale_num = eighths;
  jpeg_.scale_denom = 8;
  Guarded([&] { jpeg_calc_output_dimensions(&jpeg_); });
  return {jpeg_.output_height, jpeg_.output_width};
}

void ImageRows::Start(const Region& region) {
  Guarded([&] {
    jpeg_start_decompress(&jpeg_);
    const std::size_t before = region.left - std::min(region.left, kMargin);
    const std::size_t behind = std::min<std::size_t>(region.right + kMargin, jpeg_.output_width);
    auto left = static_cast<JDIMENSION>(before);
    auto width = static_cast<JDIMENSION>(behind - before);
    if (width < jpeg_.output_width) jpeg_crop_scanline(&jpeg_, &left, &width);
    left_ = region.left - left;
  });
  width_ = region.right - region.left;
  line_.resize(std::size_t{jpeg_.output_width} * static_cast<std::size_t>(jpeg_.output_components));
  row_.resize(width_ * kPixelBytes);
  SkipTo(region.top);
}

void ImageRows::ReadLine() {
  Guarded([&] {
    JSAMPROW line = line_.data();
    jpeg_read_scanlines(&jpeg_, &line, 1);
  });
}

void ImageRows::SkipTo(std::size_t line) {
  Guarded([&] {
    const auto lines = static_cast<JDIMENSION>(line - jpeg_.output_scanline);
    if (lines > 0) jpeg_skip_scanlines(&jpeg_, lines);
  });
}

const std::uint8_t* ImageRows::Next() {
  ReadLine();
  if (jpeg_.out_color_space == JCS_EXT_RGBX) return line_.data() + left_ * kPixelBytes;
  if (jpeg_.out_color_space == JCS_GRAYSCALE) {
    for (std::size_t x = 0; x < width_; ++x) row_[x * kPixelBytes] = line_[left_ + x];
    return row_.data();
  }
  // Adobe's programs write CMYK with 255 for no ink.
  const unsigned inverted = jpeg_.saw_Adobe_marker != 0 ? 0 : 255;
  const std::uint8_t* ink = line_.data() + left_ * kPixelBytes;
  for (std::size_t i = 0; i < row_.size(); ++i) {
    row_[i] = Product(ink[i] ^ inverted, ink[i | 3] ^ inverted);
  }
  for (std::size_t i = 0; gray_ && i < row_.size(); i += kPixelBytes) {  // Rec. 601, as libjpeg
    row_[i] = static_cast<std::uint8_t>((77 * row_[i] + 150 * row_[i + 1] + 29 * row_[i + 2]) >> 8);
  }
  return row_.data();
}

void ImageRows::Finish() {
  // Of several scans all was read at the start. Else lines are skipped by reading them, but for the
  // last one: libjpeg takes a skip to the end for leave to read no more.
  if (jpeg_has_multiple_scans(&jpeg_) != 0) return;
  if (jpeg_.output_scanline < jpeg_.output_height) {
    SkipTo(jpeg_.output_height - 1);
    ReadLine();
  }
  Guarded([&] { jpeg_finish_decompress(&jpeg_); });
}

}  // namespace ringfeed::jpeg
