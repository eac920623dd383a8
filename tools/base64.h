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

/// Replaces *bytes by what `text` stands for. Strict: kDamaged, with the place in `text`, for a
/// character outside of the alphabet, a length that is no multiple of four, padding elsewhere than
/// at the end, and bits behind the last byte that are not zero. What *bytes holds then is not
/// specified.
Status DecodeBase64(std::string_view text, std::vector<std::byte>* bytes);

}  // namespace ringfeed::tools
