// Places in a compressed file from which decompression can begin.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/compression/decompressor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a compressed file decompresses to from a point up to the next one is a span.
struct SeekPoint {
  std::uint64_t stored_begin = 0;   ///< in the file, of the first whole byte that the span needs
  std::uint64_t content_begin = 0;  ///< in what the file decompresses to
  std::uint64_t window_begin = 0;   ///< in SeekPoints::windows
  std::uint32_t window_bytes = 0;
  std::uint32_t checksum = 0;  ///< of the span's content
  /// So many of the high bits of the byte before `stored_begin` belong to the span, too.
  std::uint32_t bits = 0;
  /// The span begins inside a member: the window, and perhaps bits, go before it.
  std::uint32_t is_inside = 0;
};
static_assert(sizeof(SeekPoint) == 40);

/// What SeekPoint::checksum is.
enum class SpanSum : std::uint8_t {
  kNone,    ///< nothing: the members have checksums of their own, or none
  kCrc32c,  ///< CRC-32C
  kXxh64,   ///< the low half of XXH64 (zstd's seekable format)
};

/// The points of one file, ascending; the first one is at its start. None if it has no content.
struct SeekPoints {
  /// A longer span is refused: it is decompressed as a whole, into memory.
  static constexpr std::uint64_t kMostSpanBytes = std::uint64_t{64} << 20;
  /// Deflate's longest distance.
  static constexpr std::size_t kWindowBytes = 32 * 1024;

  Compression compression = Compression::kNone;
  SpanSum sum = SpanSum::kNone;
  std::uint64_t stored_bytes = 0;
  std::uint64_t content_bytes = 0;
  std::vector<SeekPoint> points;
  std::vector<std::byte> windows;  ///< each a frame of zstd

  /// The span that has that byte of the content, which is less than content_bytes.
  std::size_t SpanOf(std::uint64_t content) const;
  std::uint64_t ContentEnd(std::size_t span) const;
  std::size_t ContentBytes(std::size_t span) const {
    return static_cast<std::size_t>(ContentEnd(span) - points[span].content_begin);
  }
  std::uint64_t StoredEnd(std::size_t span) const;
  /// kDamaged, with what is wrong, unless all points are possible in a file of so many bytes.
  Status Check() const;
};

/// Decompresses a file once, and makes its points: at the begins of members (of zstd: frames), and
/// of gzip and zlib at blocks inside them, as in zlib's example zran. They take at most 1 % of the
/// file's bytes. `read` gives the file from its start. Fails if the file is damaged. kUnsupported
/// if it has no place to begin for more than kMostSpanBytes of content. Blocks.
Status MakeSeekPoints(Compression compression, const DecompressedReader::Source& read,
                      SeekPoints* points);

/// Reads a file: all of `to`, from `offset` on.
using ReadStored = std::function<Status(std::uint64_t offset, std::span<std::byte> to)>;

/// The points that a file in zstd's seekable format has in its last frame (zstd's
/// contrib/seekable_format/zstd_seekable_compression_format.md). kNotFound if the file has none;
/// kDamaged, with what is wrong. Blocks.
Status ReadSeekTable(std::uint64_t stored_bytes, const ReadStored& read, SeekPoints* points);

/// Decompresses a span into `content`, which has its size, and compares it with its checksum.
/// Blocks.
Status DecompressSpan(const SeekPoints& points, std::size_t span, const ReadStored& read,
                      std::span<std::byte> content);

}  // namespace ringfeed
