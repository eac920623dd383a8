#include "ringfeed/jpeg.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "module_parts.h"
#include "parsers.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

using Range = std::tuple<double, double>;
/// Of a random crop: areas, proportions, how often it is flipped.
using RandomTuple = std::tuple<Range, Range, double>;

ParserHandle Decoded(const ParserHandle& parser, jpeg::DecodeOptions options,
                     const std::optional<RandomTuple>& random) {
  if (random) {
    const auto& [area, ratio, flip] = *random;
    const jpeg::RandomCropOptions crop{.min_area = std::get<0>(area),
                                       .max_area = std::get<1>(area),
                                       .min_ratio = std::get<0>(ratio),
                                       .max_ratio = std::get<1>(ratio),
                                       .flip = flip};
    (void)jpeg::RandomCrop({1, 1}, crop, RowDraws());  // throws for options that cannot work
    options.crop = [crop](const jpeg::ImageSize& image, const MapInput& input) {
      return jpeg::RandomCrop(image, crop, input.Draws());
    };
  }
  const auto then = [before = parser.then, options](Reader rows, std::uint64_t seed) {
    jpeg::DecodeOptions seeded = options;  // chains may be built by several threads at once
    seeded.seed = seed;
    if (before) rows = before(std::move(rows), seed);
    return jpeg::Decode(std::move(rows), seeded);
  };
  return {parser.parser, then, parser.draws || random.has_value()};
}

}  // namespace

void BindJpeg(nb::module_& module) {
  module.def(
      "jpeg_parser",
      [](const ParserHandle& parser, std::string field, std::size_t height, std::size_t width,
         std::size_t channels, std::size_t shorter_side, const std::optional<RandomTuple>& random,
         std::size_t max_pixels) {
        return Decoded(parser,
                       {.field = std::move(field),
                        .height = height,
                        .width = width,
                        .channels = channels,
                        .shorter_side = shorter_side,
                        .max_pixels = max_pixels},
                       random);
      },
      nb::arg("parser"), nb::arg("field"), nb::arg("height"), nb::arg("width"), nb::arg("channels"),
      nb::arg("shorter_side"), nb::arg("random").none(), nb::arg("max_pixels"));
}

}  // namespace ringfeed::python
