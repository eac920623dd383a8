#include "readers/formats/compression/decompressor.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/memory/memory_limit.h"
#include "base/utf8.h"

namespace ringfeed {
namespace {

// zlib counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

/// zlib's streams (RFC 1950) with their Adler-32, by zlib itself: ISA-L 2.30 takes bytes that
/// follow a stream and keeps them, so another stream could not follow.
class ZlibDecompressor final : public Decompressor {
 public:
  ZlibDecompressor() {
    if (inflateInit(&stream_) != Z_OK) throw std::bad_alloc();
  }
  ~ZlibDecompressor() override { inflateEnd(&stream_); }

  Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) override;
  void Restart() override;

 private:
  z_stream stream_{};
};

void ZlibDecompressor::Restart() {
  inflateReset(&stream_);
  inside_ = false;
  problem_.clear();
}

Decompressor::Result ZlibDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  while (true) {
    const std::size_t in = std::min(input->size(), kMostAtOnce);
    const std::size_t out = std::min(output->size(), kMostAtOnce);
    inside_ = inside_ || in > 0;
    stream_.next_in =
        const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input->data()));  // only read
    stream_.avail_in = static_cast<uInt>(in);
    stream_.next_out = reinterpret_cast<Bytef*>(output->data());
    stream_.avail_out = static_cast<uInt>(out);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    *input = input->subspan(in - stream_.avail_in);
    *output = output->subspan(out - stream_.avail_out);
    if (code == Z_STREAM_END) {
      Restart();
      return Result::kMemberEnds;
    }
    if (code == Z_NEED_DICT) {  // the header's checksum matched, so it is true
      return Refuse("it was compressed with a dictionary, which is not supported",
                    StatusCode::kUnsupported);
    }
    // Z_BUF_ERROR: there was nothing to read, or no room.
    if (code != Z_OK && code != Z_BUF_ERROR) {
      return Refuse(stream_.msg != nullptr ? stream_.msg : "it does not decompress");
    }
    if (output->empty()) return Result::kNeedsRoom;
    if (input->empty()) return Result::kNeedsInput;
  }
}

// RFC 8878: a frame, and the first of the sixteen kinds of frame that are passed over.
constexpr std::uint32_t kFrameMagic = 0xFD2FB528;
constexpr std::uint32_t kSkippableMagic = 0x184D2A50;
constexpr std::uint32_t kSkippableMask = 0xFFFFFFF0;
constexpr std::size_t kMagicBytes = 4;
constexpr unsigned kByteBits = 8;
// Magic, descriptor, window, dictionary, size of the content.
constexpr std::size_t kMostFrameHeaderBytes = 18;

/// What a frame asks for, by its header (RFC 8878 section 3.1.1.1).
struct ZstdFrame {
  std::uint64_t window = 0;
  std::uint64_t dictionary = 0;
};

/// `header` has all bytes of it.
ZstdFrame ReadFrame(std::span<const std::byte> header) {
  constexpr std::size_t kDictionaryBytes[] = {0, 1, 2, 4};
  constexpr std::size_t kContentBytes[] = {0, 2, 4, 8};
  constexpr std::uint64_t kSmallestOfTwoBytes = 256;
  std::size_t at = kMagicBytes;
  const auto take = [&](std::size_t bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes && at < header.size(); ++i, ++at) {
      number |= std::to_integer<std::uint64_t>(header[at]) << kByteBits * i;
    }
    return number;
  };
  const std::uint64_t descriptor = take(1);
  const bool has_window = (descriptor >> 5 & 1) == 0;
  ZstdFrame frame;
  if (has_window) {
    const std::uint64_t window = take(1);
    const std::uint64_t base = std::uint64_t{1} << (10 + (window >> 3));
    frame.window = base + base / 8 * (window & 7);
  }
  frame.dictionary = take(kDictionaryBytes[descriptor & 3]);
  const std::uint64_t size = descriptor >> 6;
  if (!has_window) {  // then it is as large as the content
    frame.window = take(std::max<std::size_t>(1, kContentBytes[size]));
    if (size == 1) frame.window += kSmallestOfTwoBytes;
  }
  return frame;
}

/// zstd's frames by libzstd, with their checksums if they have them. A window takes as much memory
/// as it is large. One of more than 128 MiB, which the zstd command refuses by default, is taken if
/// half of what the process may have is enough.
class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() {
    if (stream_ == nullptr) throw std::bad_alloc();
  }

  Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) override;
  void Restart() override;

 private:
  /// Whether the member's bytes so far, followed by these, may begin a frame.
  bool MayBegin(std::span<const std::byte> input) const;
  void NoteTaken(std::span<const std::byte> input);
  /// One call of libzstd. A frame that only needs a larger window than those before gets it.
  std::size_t Step(ZSTD_inBuffer* in, ZSTD_outBuffer* out);
  bool Widen(const ZstdFrame& frame);
  Result Fail(std::size_t code, std::span<const std::byte> given);

  struct Close {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };

  const std::unique_ptr<ZSTD_DStream, Close> stream_{ZSTD_createDStream()};
  std::array<std::byte, kMostFrameHeaderBytes> head_{};  ///< of the member, as far as it was seen
  std::size_t head_bytes_ = 0;
  std::size_t wanted_ = 1;     ///< what libzstd asks for next: a block, a header, the checksum
  bool holds_output_ = false;  ///< there was no room for it
};

void ZstdDecompressor::Restart() {
  ZSTD_DCtx_reset(stream_.get(), ZSTD_reset_session_only);
  inside_ = false;
  problem_.clear();
  wanted_ = 1;
  holds_output_ = false;
  head_bytes_ = 0;
}

// libzstd also takes frames of its versions before the format was fixed, if their magic is at the
// start of a call. Whether it takes one would depend on how the input is cut.
bool ZstdDecompressor::MayBegin(std::span<const std::byte> input) const {
  if (head_bytes_ >= kMagicBytes) return true;
  std::uint32_t magic = 0;
  for (std::size_t at = 0; at < kMagicBytes; ++at) {
    if (at >= head_bytes_ && at - head_bytes_ >= input.size()) break;
    const std::byte byte = at < head_bytes_ ? head_[at] : input[at - head_bytes_];
    const unsigned shift = kByteBits * static_cast<unsigned>(at);
    magic |= std::to_integer<std::uint32_t>(byte) << shift;
    const auto seen = static_cast<std::uint32_t>((std::uint64_t{1} << (shift + kByteBits)) - 1);
    const bool frame = magic == (kFrameMagic & seen);
    const bool skippable = (magic & kSkippableMask) == (kSkippableMagic & seen);
    if (!frame && !skippable) return false;
  }
  return true;
}

void ZstdDecompressor::NoteTaken(std::span<const std::byte> input) {
  const std::size_t taken = std::min(input.size(), head_.size() - head_bytes_);
  std::copy_n(input.begin(), taken, head_.begin() + static_cast<std::ptrdiff_t>(head_bytes_));
  head_bytes_ += taken;
}

std::size_t ZstdDecompressor::Step(ZSTD_inBuffer* in, ZSTD_outBuffer* out) {
  const std::size_t code = ZSTD_decompressStream(stream_.get(), out, in);
  if (ZSTD_getErrorCode(code) != ZSTD_error_frameParameter_windowTooLarge) return code;
  // The header is complete only now: nothing was decompressed yet.
  const std::size_t before = head_bytes_;
  NoteTaken({static_cast<const std::byte*>(in->src), in->size});
  const std::size_t header_bytes = std::exchange(head_bytes_, before);
  if (!Widen(ReadFrame(std::span(head_).first(header_bytes)))) return code;
  in->pos = 0;
  ZSTD_inBuffer again{head_.data(), before, 0};
  const std::size_t begun = ZSTD_decompressStream(stream_.get(), out, &again);
  return ZSTD_isError(begun) != 0 ? begun : ZSTD_decompressStream(stream_.get(), out, in);
}

// Whether libzstd takes the frame's window from now on.
bool ZstdDecompressor::Widen(const ZstdFrame& frame) {
  const int log = static_cast<int>(std::bit_width(std::max<std::uint64_t>(frame.window, 1) - 1));
  if (log > ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound) return false;
  if (frame.window > AvailableMemory() / 2) return false;
  ZSTD_DCtx_reset(stream_.get(), ZSTD_reset_session_only);
  return ZSTD_isError(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, log)) == 0;
}

// No writer makes a window beyond libzstd's largest, so such a window is a damaged byte. A
// dictionary may be one as well, but a whole file that needs one is more likely.
Decompressor::Result ZstdDecompressor::Fail(std::size_t code, std::span<const std::byte> given) {
  NoteTaken(given);
  const ZstdFrame frame = ReadFrame(std::span(head_).first(head_bytes_));
  const std::uint64_t largest = std::uint64_t{1}
                                << ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound;
  const auto in_mib = [](std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
  switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_dictionary_wrong:
      return Refuse("it was compressed with the dictionary " + std::to_string(frame.dictionary) +
                        ": dictionaries are not supported",
                    StatusCode::kUnsupported);
    case ZSTD_error_frameParameter_windowTooLarge:
      if (frame.window > largest) break;
      return Refuse("its window needs " + in_mib(frame.window) + " of memory, and " +
                        in_mib(AvailableMemory()) + " are available, of which half is taken",
                    StatusCode::kResourceExhausted);
    case ZSTD_error_memory_allocation:
      return Refuse("no memory for its window of " + in_mib(frame.window),
                    StatusCode::kResourceExhausted);
    default:
      break;
  }
  return Refuse(ZSTD_getErrorName(code));
}

Decompressor::Result ZstdDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  while (true) {
    inside_ = inside_ || !input->empty();
    // Gives libzstd only what it asks for, and nothing until it has written all: if a call fails,
    // libzstd does not tell what it took and wrote.
    const std::size_t given = holds_output_ ? 0 : std::min(input->size(), wanted_);
    if (!MayBegin(input->first(given))) return Refuse("no frame of zstd starts here");
    ZSTD_inBuffer in{input->data(), given, 0};
    ZSTD_outBuffer out{output->data(), output->size(), 0};
    const std::size_t code = Step(&in, &out);
    if (ZSTD_isError(code) != 0) {
      const Result result = Fail(code, input->first(given));
      // Takes the checksum, as the other decompressors do: the call itself says that it took
      // nothing.
      const bool checksum = ZSTD_getErrorCode(code) == ZSTD_error_checksum_wrong;
      if (checksum) *input = input->subspan(given);
      return result;
    }
    NoteTaken(input->first(in.pos));
    *input = input->subspan(in.pos);
    *output = output->subspan(out.pos);
    wanted_ = std::max<std::size_t>(code, 1);
    holds_output_ = output->empty();
    if (code == 0 && inside_) {
      inside_ = false;
      head_bytes_ = 0;
      return Result::kMemberEnds;
    }
    if (output->empty()) return Result::kNeedsRoom;
    if (input->empty()) return Result::kNeedsInput;
  }
}

unsigned At(std::span<const std::byte> head, std::size_t index) {
  return std::to_integer<unsigned>(head[index]);
}

// The third byte is the method, the fourth has flags of which three are reserved.
bool StartsAsGzip(std::span<const std::byte> head) {
  return At(head, 0) == 0x1f && At(head, 1) == 0x8b && At(head, 2) == 8 && At(head, 3) < 0x20;
}

// A frame, or a skippable one.
bool StartsAsZstd(std::span<const std::byte> head) {
  const bool frame = At(head, 0) == 0x28 && At(head, 1) == 0xb5;
  if (frame && At(head, 2) == 0x2f && At(head, 3) == 0xfd) return true;
  const bool skippable = At(head, 0) >> 4 == 5 && At(head, 1) == 0x2a;
  return skippable && At(head, 2) == 0x4d && At(head, 3) == 0x18;
}

bool StartsWith(std::span<const std::byte> head, std::span<const unsigned char> magic) {
  head = head.first(std::min(head.size(), magic.size()));
  return std::ranges::equal(head, std::as_bytes(magic.first(head.size())));
}

// A level, then a block or the end of an empty stream; as far as there are bytes.
bool StartsAsBzip2(std::span<const std::byte> head) {
  constexpr unsigned char kBlock[] = {0x31, 0x41, 0x59, 0x26, 0x53, 0x59};
  constexpr unsigned char kEnd[] = {0x17, 0x72, 0x45, 0x38, 0x50, 0x90};
  if (At(head, 0) != 'B' || At(head, 1) != 'Z' || At(head, 2) != 'h') return false;
  const bool has_level = At(head, 3) >= '1' && At(head, 3) <= '9';
  return has_level && (StartsWith(head.subspan(4), kBlock) || StartsWith(head.subspan(4), kEnd));
}

bool StartsAsXz(std::span<const std::byte> head) {
  constexpr unsigned char kMagic[] = {0xfd, '7', 'z', 'X', 'Z', 0};
  return StartsWith(head, kMagic);
}

bool StartsAsLz4(std::span<const std::byte> head) {
  constexpr unsigned char kMagic[] = {0x04, 0x22, 0x4d, 0x18};
  return StartsWith(head, kMagic);
}

// Streams of blocks, which are not what a name that ends in ".snappy" usually stands for.
bool IsFramedSnappy(std::span<const std::byte> head) {
  constexpr unsigned char kOfficial[] = {0xff, 6, 0, 0, 's', 'N', 'a', 'P', 'p', 'Y'};
  constexpr unsigned char kFluid[] = {'s', 'n', 'a', 'p', 'p', 'y', 0};
  return (head.size() >= sizeof kOfficial && StartsWith(head, kOfficial)) ||
         (head.size() >= sizeof kFluid && StartsWith(head, kFluid));
}

// By a magic number, of at least four bytes.
Compression ByMagic(std::span<const std::byte> head) {
  if (StartsAsGzip(head)) return Compression::kGzip;
  if (StartsAsZstd(head)) return Compression::kZstd;
  if (StartsAsBzip2(head)) return Compression::kBzip2;
  if (StartsAsXz(head)) return Compression::kXz;
  return StartsAsLz4(head) ? Compression::kLz4 : Compression::kNone;
}

bool StartsAsZlib(std::span<const std::byte> head) {
  // RFC 1950: method 8, a window of at most 32 KiB, a multiple of 31.
  const unsigned method_and_window = At(head, 0);
  return (method_and_window & 0x0f) == 8 && method_and_window >> 4 < 8 &&
         (method_and_window * 256 + At(head, 1)) % 31 == 0;
}

// If there are fewer bytes than a magic number has: whether the missing ones may complete one.
bool MayBeginCompressed(std::span<const std::byte> head) {
  if (head.empty()) return true;
  const unsigned first = At(head, 0);
  const bool skippable = first >> 4 == 5;
  if (head.size() == 1) {
    const bool zlib = (first & 0x0f) == 8 && first >> 4 < 8;
    return zlib || skippable || first == 0x1f || first == 0x28 || first == 'B' || first == 0xfd ||
           first == 0x04;
  }
  const unsigned second = At(head, 1);
  return StartsAsZlib(head) || (skippable && second == 0x2a) || (first == 0x1f && second == 0x8b) ||
         (first == 0x28 && second == 0xb5) || (first == 'B' && second == 'Z') || StartsAsXz(head) ||
         StartsAsLz4(head);
}

// If so many bytes inflate without a fault, that is not chance. Fewer bytes are a stream of zlib if
// it ends in them.
constexpr std::size_t kConvincingBytes = 4096;

Decompressor::Result Inflate(std::span<const std::byte> head) {
  ZlibDecompressor inflater;
  std::array<std::byte, 4096> discarded;
  while (true) {
    std::span<std::byte> room = discarded;
    const Decompressor::Result result = inflater.Decompress(&head, &room);
    if (result != Decompressor::Result::kNeedsRoom) return result;
  }
}

// Whether a writer flushed its data: that leaves an empty block which ends a byte and has the
// complement of its length beside it. After so much decompressed data that is not chance.
bool HasFlush(std::span<const std::byte> head) {
  // zlib.h: how many bits of the last byte are left, and whether a block ended just now.
  constexpr int kBitsLeft = 7;
  constexpr int kBlockEnded = 128;
  constexpr std::array<std::byte, 4> kEmptyBlock = {std::byte{0}, std::byte{0}, std::byte{0xff},
                                                    std::byte{0xff}};
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> ends(&stream, &inflateEnd);
  std::array<std::byte, 4096> discarded;
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(head.data()));  // only read
  stream.avail_in = static_cast<uInt>(std::min(head.size(), kMostAtOnce));
  int code = Z_OK;
  while (code == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(discarded.data());
    stream.avail_out = static_cast<uInt>(discarded.size());
    code = inflate(&stream, Z_BLOCK);
    const bool block_ends =
        (stream.data_type & kBlockEnded) != 0 && (stream.data_type & kBitsLeft) == 0;
    const auto taken = static_cast<std::size_t>(stream.total_in);
    if (code != Z_OK || !block_ends || stream.total_out == 0 || taken < kEmptyBlock.size())
      continue;
    if (std::ranges::equal(head.first(taken).last(kEmptyBlock.size()), kEmptyBlock)) return true;
  }
  return false;
}

bool IsZlib(std::span<const std::byte> head) {
  if (!StartsAsZlib(head)) return false;
  const Decompressor::Result result = Inflate(head);
  return result == Decompressor::Result::kMemberEnds ||
         (result == Decompressor::Result::kNeedsInput && head.size() >= kConvincingBytes) ||
         HasFlush(head);
}

// Whether it is UTF-8, the last character perhaps cut, without control characters that texts do not
// have.
bool MayBeText(std::span<const std::byte> head) {
  constexpr std::string_view kOfText = "\a\b\t\n\v\f\r\x1b";
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const bool has_control = std::any_of(text.begin(), text.end(), [&](char c) {
    return static_cast<unsigned char>(c) < 0x20 && kOfText.find(c) == kOfText.npos;
  });
  return !has_control && IsUtf8(text, true);
}

struct Ending {
  Compression compression;
  std::string_view text;  // of the endings of a compression the first one is written
};
constexpr Ending kEndings[] = {
    {Compression::kGzip, ".gz"},   {Compression::kGzip, ".gzip"},    {Compression::kZlib, ".zlib"},
    {Compression::kZlib, ".zz"},   {Compression::kZstd, ".zst"},     {Compression::kZstd, ".zstd"},
    {Compression::kBzip2, ".bz2"}, {Compression::kXz, ".xz"},        {Compression::kLz4, ".lz4"},
    {Compression::kBrotli, ".br"}, {Compression::kSnappy, ".snappy"}};

}  // namespace

const char* CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
    case Compression::kZstd:
      return "zstd";
    case Compression::kBzip2:
      return "bzip2";
    case Compression::kXz:
      return "xz";
    case Compression::kLz4:
      return "lz4";
    case Compression::kBrotli:
      return "brotli";
    case Compression::kSnappy:
      return "snappy";
    case Compression::kNone:
      break;
  }
  return "nothing";
}

Compression TakeCompressedEnding(std::string_view* file_name) {
  for (const auto& [compression, text] : kEndings) {
    if (!file_name->ends_with(text)) continue;
    file_name->remove_suffix(text.size());
    return compression;
  }
  return Compression::kNone;
}

std::string_view CompressedEnding(Compression compression) {
  for (const Ending& ending : kEndings) {
    if (ending.compression == compression) return ending.text;
  }
  return {};
}

bool IsWritten(Compression compression) {
  return compression == Compression::kGzip || compression == Compression::kZlib ||
         compression == Compression::kZstd;
}

Compression TakeCompression(std::string_view* format_name) {
  for (const Compression compression :
       {Compression::kGzip, Compression::kZlib, Compression::kZstd, Compression::kBzip2,
        Compression::kXz, Compression::kLz4, Compression::kBrotli, Compression::kSnappy}) {
    const std::string ending = std::string("+") + CompressionName(compression);
    if (!format_name->ends_with(ending)) continue;
    format_name->remove_suffix(ending.size());
    return compression;
  }
  return Compression::kNone;
}

bool StartsMember(Compression compression, std::span<const std::byte> head) {
  switch (compression) {
    case Compression::kGzip:
      return StartsAsGzip(head);
    case Compression::kZlib:
      return StartsAsZlib(head);
    case Compression::kZstd:
      return StartsAsZstd(head);
    case Compression::kBzip2:
      return StartsAsBzip2(head);
    case Compression::kXz:
      return StartsAsXz(head);
    case Compression::kLz4:
      return StartsAsLz4(head);
    case Compression::kBrotli:
    case Compression::kSnappy:
    case Compression::kNone:
      break;
  }
  return false;
}

std::size_t FirstBlockBytes(Compression compression, std::span<const std::byte> head) {
  constexpr std::size_t kMostZstdBlock = 128 * 1024;
  constexpr std::size_t kBzip2Level = 100'000;
  constexpr std::size_t kSnappyPiece = 64 * 1024;
  constexpr std::size_t kHeaders = 1024;
  if (compression == Compression::kZstd) return kMostZstdBlock;
  // Pieces of 64 KiB, a sixth longer if they do not compress.
  if (compression == Compression::kSnappy) return kSnappyPiece + kSnappyPiece / 6 + kHeaders;
  // What does not compress gets a hundredth longer (bzip2's manual).
  if (compression == Compression::kBzip2) {
    return (At(head, 3) - '0') * (kBzip2Level + kBzip2Level / 100) + kHeaders;
  }
  // Blocks of up to 64 KiB, 256 KiB, 1 MiB or 4 MiB, by three bits of the second byte after the
  // magic number.
  if (compression == Compression::kLz4 && head.size() > 5) {
    const unsigned kind = std::clamp(At(head, 5) >> 4 & 7, 4U, 7U);
    return (std::size_t{1} << (2 * kind + 8)) + kHeaders;
  }
  return 0;
}

Compression DetectCompression(std::span<const std::byte> head, std::string_view file_name) {
  const Compression named = TakeCompressedEnding(&file_name);
  // Nothing else tells these.
  if (named == Compression::kBrotli) return named;
  if (named == Compression::kSnappy) return IsFramedSnappy(head) ? Compression::kNone : named;
  if (head.size() < kMagicBytes) return MayBeText(head) ? Compression::kNone : named;
  if (const Compression told = ByMagic(head); told != Compression::kNone) return told;
  if (IsZlib(head) || (named != Compression::kNone && StartsAsZlib(head)))
    return Compression::kZlib;
  return MayBeText(head) ? Compression::kNone : named;
}

bool MayBeCompressed(std::span<const std::byte> head) {
  if (head.size() < kMagicBytes) return MayBeginCompressed(head);
  if (ByMagic(head) != Compression::kNone) return true;
  return StartsAsZlib(head) && Inflate(head) != Decompressor::Result::kDamaged;
}

std::unique_ptr<Decompressor> MakeDecompressor(Compression compression) {
  if (compression == Compression::kGzip) return MakeGzipDecompressor();
  if (compression == Compression::kZlib) return std::make_unique<ZlibDecompressor>();
  if (compression == Compression::kZstd) return std::make_unique<ZstdDecompressor>();
  return MakeLibraryDecompressor(compression);
}

}  // namespace ringfeed
