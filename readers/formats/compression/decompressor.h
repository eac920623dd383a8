#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// How a whole file is compressed.
enum class Compression : std::uint8_t {
  kNone,
  kGzip,    ///< RFC 1952, any number of members
  kZlib,    ///< RFC 1950, any number of streams
  kZstd,    ///< RFC 8878, any number of frames
  kBzip2,   ///< any number of streams; read, not written, as all that follow
  kXz,      ///< any number of streams (tukaani.org/xz/xz-file-format.txt)
  kLz4,     ///< any number of frames (lz4_Frame_format.md of lz4)
  kBrotli,  ///< RFC 7932; only its name or the format's tells
  kSnappy,  ///< raw blocks (format_description.txt of google/snappy); told as brotli is
};

/// "gzip", "zlib", "zstd", "bzip2", "xz", "lz4", "brotli", "snappy", "nothing".
const char* CompressionName(Compression compression);

/// How a file of that name would be compressed, by its ending (".gz", ".gzip", ".zlib", ".zz",
/// ".zst", ".zstd", ".bz2", ".xz", ".lz4", ".br", ".snappy"), which is taken off the name.
Compression TakeCompressedEnding(std::string_view* file_name);
/// The ending that is written, ".gz"; empty for kNone.
std::string_view CompressedEnding(Compression compression);
/// Whether files are also written so.
bool IsWritten(Compression compression);

/// How a format's name says that its files are compressed ("tfrecord+gzip"); removes it from the
/// name.
Compression TakeCompression(std::string_view* format_name);

/// How a file is compressed, by its first bytes: 4 KiB of them, or the whole file. The magic
/// numbers of gzip, zstd, bzip2, xz and lz4 are enough by themselves. The two bytes of zlib count
/// if a stream ends in the head, if its writer flushed something there, if 4 KiB decompress, or if
/// the name has an ending of compressed files. If the name has one and the bytes are neither a
/// stream nor text, the name counts: then the stream is damaged.
Compression DetectCompression(std::span<const std::byte> head, std::string_view file_name = {});
/// Whether a file or stream with these first bytes is compressed, or may prove so as more come.
bool MayBeCompressed(std::span<const std::byte> head);

/// How many bytes of a file that is compressed so give its first decompressed byte at the least:
/// those of a block, of which some kinds give nothing before they have it whole. `head` has at
/// least its first 16 bytes.
std::size_t FirstBlockBytes(Compression compression, std::span<const std::byte> head);

/// Whether at least four bytes begin as a member of that kind: with its magic number, or two bytes
/// that may be zlib's. Never for brotli and snappy, which have none.
bool StartsMember(Compression compression, std::span<const std::byte> head);

/// Decompresses one member after another (a member of gzip, a stream of zlib, a frame of zstd, …),
/// piece by piece, and checks their checksums. One thread at a time.
class Decompressor {
 public:
  enum class Result : std::uint8_t {
    kNeedsInput,  ///< all input is used up, what it gave is written
    kNeedsRoom,   ///< the output is full, and there may be more of it
    kMemberEnds,  ///< a member was complete and right; the next call starts the next one
    kDamaged,     ///< see problem() and code(); nothing more can be read before Restart
  };

  virtual ~Decompressor() = default;
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// Takes from the front of *input and fills the front of *output, and moves both on.
  virtual Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) = 0;
  /// Forgets what was read: the next byte starts a member.
  virtual void Restart() = 0;
  /// Whether a member was begun and has not ended.
  bool inside_member() const { return inside_; }
  std::string_view problem() const { return problem_; }
  /// kDamaged, or why bytes that may be right cannot be read: kUnsupported, kResourceExhausted.
  StatusCode code() const { return code_; }

 protected:
  Decompressor() = default;
  Result Refuse(std::string_view problem, StatusCode code = StatusCode::kDamaged) {
    problem_ = problem;
    code_ = code;
    return Result::kDamaged;
  }

  bool inside_ = false;
  std::string problem_;
  StatusCode code_ = StatusCode::kDamaged;
};

/// Not for kNone.
std::unique_ptr<Decompressor> MakeDecompressor(Compression compression);
/// That of gzip, by ISA-L.
std::unique_ptr<Decompressor> MakeGzipDecompressor();
/// Those of bzip2, xz, lz4, brotli and snappy. If the build lacks the library, its first call fails
/// with kUnsupported.
std::unique_ptr<Decompressor> MakeLibraryDecompressor(Compression compression);

}  // namespace ringfeed
