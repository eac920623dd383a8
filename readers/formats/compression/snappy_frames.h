#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ringfeed {

/// The two streams that are called snappy. Both cut the data into blocks with a header and the
/// masked CRC-32C of the uncompressed block.
enum class SnappyFraming : std::uint8_t {
  kStream,    ///< snappystream's, of Fluid: "snappy\0", blocks of 32 KiB, u16 and u32 big-endian
  kOfficial,  ///< google/snappy's framing_format.txt, of Go: blocks of 64 KiB, little-endian
};

/// Adds up what the blocks of `stream` promise to decompress to, without decompressing any, and
/// checks that they fill the stream. Returns what is wrong, empty if nothing is. A block promises
/// 64 KiB at most, so the stream's size bounds the sum.
std::string_view SnappyFramedSize(SnappyFraming framing, std::span<const std::byte> stream,
                                  std::size_t* bytes);

/// Decompresses `stream` to `to`, which is as long as SnappyFramedSize found, and checks every
/// block's checksum. Returns what is wrong, empty if nothing is. A stream in a mapped file may have
/// changed since its size was found: that is also reported, and nothing outside `to` is written.
std::string_view SnappyFramedDecompress(SnappyFraming framing, std::span<const std::byte> stream,
                                        std::span<std::byte> to);

/// Appends `data` as a stream: blocks that gain less than an eighth are stored as they are.
void SnappyFramedCompress(SnappyFraming framing, std::span<const std::byte> data,
                          std::vector<std::byte>* stream);

}  // namespace ringfeed
