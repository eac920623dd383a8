#include <array>
#include <optional>

#include "readers/jpeg/decode_row.h"
#include "ringfeed/status.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

constexpr std::size_t kSide = 12;
/// A progressive image of so many pixels takes as many scans as fit into the input.
constexpr std::size_t kMostPixels = std::size_t{1} << 14;

/// What came of one image: nothing if it was decoded, else why it is damaged.
using Outcome = std::optional<std::string>;

Outcome Decode(std::span<const std::byte> image, std::size_t channels, unsigned part,
               bool* was_chosen) {
  const jpeg::DecodeOptions options{
      .height = kSide, .width = kSide, .channels = channels, .max_pixels = kMostPixels};
  std::array<std::byte, kSide * kSide * 3> pixels{};
  const auto crop_of = [&](const jpeg::ImageSize& size) {
    FuzzExpect(size.height * size.width <= kMostPixels && size.height * size.width > 0,
               "an image has a pixel, and not more than are allowed");
    *was_chosen = true;
    if (part == 0) return jpeg::CenterCrop(size, options);
    const double from = (part % 16) / 16.0;
    const auto height = static_cast<double>(size.height);
    const auto width = static_cast<double>(size.width);
    return jpeg::Crop{height * from, width * from, height * (1 - from) / 2, width * (1 - from) / 2,
                      part >= 128};
  };
  try {
    DecodeRow(image, options, crop_of, std::span(pixels).first(kSide * kSide * channels));
  } catch (const Error& error) {
    FuzzExpect(error.status().code() == StatusCode::kDamaged, "what cannot be decoded is damage",
               [&] { return error.status().ToString(); });
    return error.status().message();
  }
  FuzzExpect(*was_chosen, "a part was chosen of what was decoded");
  return {};
}

}  // namespace

FuzzTarget JpegTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const std::size_t channels = TakeByte(&input) % 2 == 0 ? 3 : 1;
    const unsigned part = TakeByte(&input);
    const ExactCopy image(input);
    bool was_chosen = false;
    const Outcome centre = Decode(image.bytes(), channels, 0, &was_chosen);
    const Outcome other = Decode(image.bytes(), channels, part, &was_chosen);
    FuzzExpect(centre.has_value() == other.has_value(),
               "whether an image is damaged does not depend on its part",
               [&] { return centre.value_or("fine") + " / " + other.value_or("fine"); });
  };
}

}  // namespace ringfeed
