#include <isa-l/igzip_lib.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "base/crc32.h"
#include "base/little_endian.h"
#include "readers/formats/compression/decompressor.h"

namespace ringfeed {
namespace {

/// Reads the header of a gzip member (RFC 1952 section 2.3) piece by piece, and checks its checksum
/// if it has one. ISA-L 2.30 accepts reserved flags, and misses a wrong checksum if the header
/// comes in pieces.
class GzipHeader {
 public:
  /// Takes the header's bytes from the front of *input. Returns false if the header is wrong:
  /// problem() says how, and nothing more can be read before Restart.
  bool Read(std::span<const std::byte>* input);
  void Restart() { *this = {}; }
  bool complete() const { return part_ == Part::kEnd; }
  std::string_view problem() const { return problem_; }

 private:
  enum class Part : std::uint8_t { kFixed, kExtraSize, kExtra, kName, kComment, kChecksum, kEnd };
  static constexpr std::size_t kFixedBytes = 10;

  /// How many bytes of the input belong to the current part. After the part's last byte it goes on
  /// to the next part.
  std::size_t Take(std::span<const std::byte> input);
  std::size_t TakeNumbers(std::span<const std::byte> input, std::size_t bytes);
  std::size_t TakeText(std::span<const std::byte> input, Part next);
  void EndNumbers();
  /// Goes to `part`, or to the first one after it that the flags announce.
  void GoTo(Part part);

  Part part_ = Part::kFixed;
  unsigned flags_ = 0;
  std::array<std::byte, kFixedBytes> numbers_{};  ///< of the part at hand
  std::size_t filled_ = 0;                        ///< bytes of it that were taken
  std::size_t extra_bytes_ = 0;
  std::uint32_t crc_ = 0;  ///< of all in front of the checksum
  std::string_view problem_;
};

constexpr unsigned kHasChecksum = 2;
constexpr unsigned kHasExtra = 4;
constexpr unsigned kHasName = 8;
constexpr unsigned kHasComment = 16;
constexpr unsigned kReserved = 0xe0;

bool GzipHeader::Read(std::span<const std::byte>* input) {
  while (problem_.empty() && !complete() && !input->empty()) {
    const bool covered = part_ != Part::kChecksum;
    const std::size_t taken = Take(*input);
    if (covered) crc_ = Crc32(input->first(taken), crc_);
    *input = input->subspan(taken);
  }
  return problem_.empty();
}

std::size_t GzipHeader::Take(std::span<const std::byte> input) {
  switch (part_) {
    case Part::kFixed:
      return TakeNumbers(input, kFixedBytes);
    case Part::kExtraSize:
    case Part::kChecksum:
      return TakeNumbers(input, 2);
    case Part::kExtra: {
      const std::size_t taken = std::min(input.size(), extra_bytes_);
      extra_bytes_ -= taken;
      if (extra_bytes_ == 0) GoTo(Part::kName);
      return taken;
    }
    case Part::kName:
      return TakeText(input, Part::kComment);
    case Part::kComment:
      return TakeText(input, Part::kChecksum);
    case Part::kEnd:
      break;
  }
  return 0;
}

std::size_t GzipHeader::TakeNumbers(std::span<const std::byte> input, std::size_t bytes) {
  const std::size_t taken = std::min(input.size(), bytes - filled_);
  std::copy_n(input.begin(), taken, numbers_.begin() + static_cast<std::ptrdiff_t>(filled_));
  filled_ += taken;
  if (filled_ == bytes) {
    filled_ = 0;
    EndNumbers();
  }
  return taken;
}

void GzipHeader::EndNumbers() {
  const auto first = LoadLe<std::uint16_t>(numbers_.data());
  switch (part_) {
    case Part::kFixed:
      flags_ = std::to_integer<unsigned>(numbers_[3]);
      problem_ = first != 0x8b1f               ? "no header of gzip"
                 : numbers_[2] != std::byte{8} ? "an unknown method"
                 : (flags_ & kReserved) != 0   ? "reserved flags are set"
                                               : "";
      GoTo(Part::kExtraSize);
      break;
    case Part::kExtraSize:
      extra_bytes_ = first;
      GoTo(first == 0 ? Part::kName : Part::kExtra);
      break;
    default:  // the checksum
      if (first != (crc_ & 0xffff)) problem_ = "the checksum of its header does not match";
      part_ = Part::kEnd;
  }
}

std::size_t GzipHeader::TakeText(std::span<const std::byte> input, Part next) {
  const auto end = std::find(input.begin(), input.end(), std::byte{0});
  if (end == input.end()) return input.size();
  GoTo(next);
  return static_cast<std::size_t>(end - input.begin()) + 1;
}

void GzipHeader::GoTo(Part part) {
  // In the order of Part.
  constexpr unsigned kAnnouncedBy[] = {0,        kHasExtra,   kHasExtra,
                                       kHasName, kHasComment, kHasChecksum};
  auto next = static_cast<std::size_t>(part);
  while (next < std::size(kAnnouncedBy) && (flags_ & kAnnouncedBy[next]) == 0) ++next;
  part_ = static_cast<Part>(next);
}

// ISA-L counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
// Deflate's longest distance: after so many decompressed bytes no distance reaches too far.
constexpr std::size_t kFarthest = 32 * 1024;
// If the compressed bytes up to there are more, the true bytes are only estimated.
constexpr std::size_t kMostStart = 256 * 1024;

/// How many bytes a short piece of deflate gives before it makes no sense.
std::size_t TrueBytes(std::span<const std::byte> first, std::span<const std::byte> second) {
  z_stream stream{};
  if (inflateInit2(&stream, -15) != Z_OK) throw std::bad_alloc();
  std::vector<Bytef> room(2 * kFarthest);
  stream.next_out = room.data();
  stream.avail_out = static_cast<uInt>(room.size());
  for (const std::span<const std::byte> part : {first, second}) {
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(part.data()));  // only read
    stream.avail_in = static_cast<uInt>(std::min(part.size(), kMostAtOnce));
    if (inflate(&stream, Z_SYNC_FLUSH) == Z_DATA_ERROR) break;
  }
  inflateEnd(&stream);
  return stream.total_out;
}

/// gzip's members (RFC 1952) by ISA-L, with their CRC-32 and length.
class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() { Restart(); }

  Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) override;
  void Restart() override;

 private:
  /// How many of the bytes that a call wrote are true, if it found a distance too far.
  std::size_t TrueOf(std::span<const std::byte> input, std::size_t written) const;
  void NoteTaken(std::span<const std::byte> taken, std::size_t written);

  GzipHeader header_;
  inflate_state stream_{};
  std::uint64_t decompressed_ = 0;  ///< bytes of the member so far
  std::vector<std::byte> start_;    ///< what they came from, as long as it is short
};

void GzipDecompressor::Restart() {
  header_.Restart();
  // A distance that is too far is not always noticed. Such a distance must find no bytes that were
  // read earlier, not even decompressed ones that were never given out.
  if (inside_) std::memset(stream_.tmp_out_buffer, 0, sizeof(stream_.tmp_out_buffer));
  decompressed_ = 0;
  start_.clear();
  isal_inflate_init(&stream_);
  stream_.crc_flag = ISAL_GZIP_NO_HDR_VER;
  inside_ = false;
  problem_.clear();
}

Decompressor::Result GzipDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  inside_ = inside_ || !input->empty();
  if (!header_.Read(input)) return Refuse(header_.problem());
  if (!header_.complete()) return Result::kNeedsInput;
  while (true) {
    const auto in = static_cast<std::uint32_t>(std::min(input->size(), kMostAtOnce));
    const auto out = static_cast<std::uint32_t>(std::min(output->size(), kMostAtOnce));
    stream_.next_in = const_cast<std::uint8_t*>(
        reinterpret_cast<const std::uint8_t*>(input->data()));  // it is only read
    stream_.avail_in = in;
    stream_.next_out = reinterpret_cast<std::uint8_t*>(output->data());
    stream_.avail_out = out;
    const int code = isal_inflate(&stream_);
    std::size_t written = out - stream_.avail_out;
    if (code == ISAL_INVALID_LOOKBACK) written = TrueOf(*input, written);
    // In a damaged stream it may have counted bytes that it expected and did not get.
    const std::size_t taken = std::min(in, in - stream_.avail_in);
    NoteTaken(input->first(taken), written);
    *input = input->subspan(taken);
    *output = output->subspan(written);
    if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT && code != ISAL_OUT_OVERFLOW) {
      return Refuse(code == ISAL_INCORRECT_CHECKSUM ? "its checksum or length does not match"
                                                    : "it does not decompress");
    }
    if (stream_.block_state == ISAL_BLOCK_FINISH) {
      Restart();
      return Result::kMemberEnds;
    }
    if (output->empty()) return Result::kNeedsRoom;
    if (input->empty()) return Result::kNeedsInput;
  }
}

// ISA-L counts the copy that it refuses, though it did not write those bytes.
std::size_t GzipDecompressor::TrueOf(std::span<const std::byte> input, std::size_t written) const {
  constexpr std::size_t kLongestCopy = 258;
  if (start_.size() >= kMostStart) return written - std::min(written, kLongestCopy);
  const std::size_t all = TrueBytes(start_, input);
  return std::min<std::size_t>(written, all - std::min<std::uint64_t>(all, decompressed_));
}

void GzipDecompressor::NoteTaken(std::span<const std::byte> taken, std::size_t written) {
  decompressed_ += written;
  if (decompressed_ >= kFarthest || start_.size() >= kMostStart) return;
  const auto fits = taken.first(std::min(taken.size(), kMostStart - start_.size()));
  start_.insert(start_.end(), fits.begin(), fits.end());
}

}  // namespace

std::unique_ptr<Decompressor> MakeGzipDecompressor() {
  return std::make_unique<GzipDecompressor>();
}

}  // namespace ringfeed
