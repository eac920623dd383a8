#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Appends `bytes` in the standard alphabet of RFC 4648, padded, without line ends.
void AppendBase64(std::span<const std::byte> bytes, std::string* text);

/// Decodes `text` into *bytes. Strict: kDamaged, with the place in `text`, for a character outside
/// of the alphabet, a length that is no multiple of four, padding before the end, and bits after
/// the last byte that are not zero. Then the contents of *bytes are unspecified.
Status DecodeBase64(std::string_view text, std::vector<std::byte>* bytes);

}  // namespace ringfeed::tools
