#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ringfeed/jpeg.h"

namespace ringfeed::jpeg {

/// The centre that the options ask for.
Crop CenterCrop(const ImageSize& image, const DecodeOptions& options);

/// Decodes one JPEG to `pixels`, height * width * channels bytes. `crop_of` chooses the part.
/// Throws Error(kDamaged), Error(kInvalidArgument) for a part that is not within the image, and
/// what `crop_of` throws.
void DecodeRow(std::span<const std::byte> encoded, const DecodeOptions& options,
               const std::function<Crop(const ImageSize& image)>& crop_of,
               std::span<std::byte> pixels);

}  // namespace ringfeed::jpeg
