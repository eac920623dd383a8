#include "tests/jpeg/made_jpeg.h"

#include <cmath>
#include <cstdlib>

namespace ringfeed::jpeg {

std::vector<std::uint8_t> MadePixels(const Encoding& encoding, int channels) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < encoding.height; ++y) {
    for (int x = 0; x < encoding.width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double wave = std::sin(0.11 * x + 0.7 * c) + std::cos(0.07 * y * (c + 1));
        const int edge = (x / 13 + y / 9 + c) % 3 == 0 ? 60 : 0;
        pixels.push_back(static_cast<std::uint8_t>(98 + edge + static_cast<int>(48 * wave)));
      }
    }
  }
  return pixels;
}

std::string MadeJpeg(const Encoding& encoding) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(encoding.width);
  jpeg.image_height = static_cast<JDIMENSION>(encoding.height);
  jpeg.in_color_space = encoding.from;
  jpeg.input_components = encoding.from == JCS_RGB ? 3 : encoding.from == JCS_CMYK ? 4 : 1;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg.comp_info[0].h_samp_factor = encoding.across;
  jpeg.comp_info[0].v_samp_factor = encoding.down;
  jpeg.restart_in_rows = encoding.restart_rows;
  std::vector<jpeg_scan_info> scans;
  if (encoding.progressive) jpeg_simple_progression(&jpeg);
  if (encoding.many_scans) {  // three for each coefficient
    scans.push_back({1, {0}, 0, 0, 0, 0});
    for (int k = 1; k < DCTSIZE2; ++k) {
      scans.push_back({1, {0}, k, k, 0, 2});
      scans.push_back({1, {0}, k, k, 2, 1});
      scans.push_back({1, {0}, k, k, 1, 0});
    }
    jpeg.scan_info = scans.data();
    jpeg.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<std::uint8_t> pixels = MadePixels(encoding, jpeg.input_components);
  const auto line = static_cast<std::size_t>(encoding.width * jpeg.input_components);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = pixels.data() + jpeg.next_scanline * line;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string made(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return made;
}

std::vector<std::uint8_t> WholePixels(const std::string& bytes, unsigned eighths, int channels) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = channels == 4 ? JCS_CMYK : channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg.scale_num = eighths;
  jpeg.scale_denom = 8;
  jpeg_start_decompress(&jpeg);
  const std::size_t line = jpeg.output_width * static_cast<std::size_t>(channels);
  std::vector<std::uint8_t> pixels(line * jpeg.output_height);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels.data() + jpeg.output_scanline * line;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return pixels;
}

}  // namespace ringfeed::jpeg
