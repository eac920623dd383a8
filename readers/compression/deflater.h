#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ringfeed {

/// Appends `data` as one gzip member (RFC 1952) without a name or a time.
void AppendGzipMember(std::span<const std::byte> data, std::vector<std::byte>* stream);

}  // namespace ringfeed
