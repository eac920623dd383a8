#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

/// CRC-32 of IEEE 802.3 (polynomial 0x04C11DB7, reflected), as in RFC 1952 section 8 and zlib's
/// crc32. `crc` is the CRC of the bytes before `data`, 0 if there are none.
std::uint32_t Crc32(std::span<const std::byte> data, std::uint32_t crc = 0);

}  // namespace ringfeed
