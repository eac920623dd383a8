#include "readers/formats/compression/gzip_decompressor.h"

#include <isa-l/igzip_lib.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "readers/formats/compression/gzip_header.h"

namespace ringfeed {
namespace {

// ISA-L counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
// Of deflate: no distance is too far behind so much content.
constexpr std::size_t kFarthest = 32 * 1024;
// Beyond so many bytes of the file in front of that it is not looked at what was true.
constexpr std::size_t kMostStart = 256 * 1024;

/// How much content deflated bytes give before they make no sense, of which there is little.
std::size_t TrueContent(std::span<const std::byte> first, std::span<const std::byte> second) {
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

}  // namespace

struct GzipDecompressor::State {
  GzipHeader header;
  inflate_state stream{};
  std::uint64_t content = 0;     ///< of the member so far
  std::vector<std::byte> start;  ///< what that came from, as long as it is short
};

GzipDecompressor::GzipDecompressor() : state_(std::make_unique<State>()) { Restart(); }

GzipDecompressor::~GzipDecompressor() = default;

void GzipDecompressor::Restart() {
  state_->header.Restart();
  inflate_state& stream = state_->stream;
  // A distance that is too far is not always noticed: let it find nothing that was once read, also
  // of what was decompressed and never given out.
  if (inside_) std::memset(stream.tmp_out_buffer, 0, sizeof(stream.tmp_out_buffer));
  state_->content = 0;
  state_->start.clear();
  isal_inflate_init(&stream);
  stream.crc_flag = ISAL_GZIP_NO_HDR_VER;
  inside_ = false;
  problem_ = {};
}

Decompressor::Result GzipDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  inside_ = inside_ || !input->empty();
  GzipHeader& header = state_->header;
  if (!header.Read(input)) {
    problem_ = header.problem();
    return Result::kDamaged;
  }
  if (!header.complete()) return Result::kNeedsInput;
  inflate_state& stream = state_->stream;
  while (true) {
    const auto in = static_cast<std::uint32_t>(std::min(input->size(), kMostAtOnce));
    const auto out = static_cast<std::uint32_t>(std::min(output->size(), kMostAtOnce));
    stream.next_in = const_cast<std::uint8_t*>(
        reinterpret_cast<const std::uint8_t*>(input->data()));  // it is only read
    stream.avail_in = in;
    stream.next_out = reinterpret_cast<std::uint8_t*>(output->data());
    stream.avail_out = out;
    const int code = isal_inflate(&stream);
    std::size_t written = out - stream.avail_out;
    if (code == ISAL_INVALID_LOOKBACK) written = TrueOf(*input, written);
    // Where a stream is damaged it may have counted bytes that it had hoped for.
    const std::size_t taken = std::min(in, in - stream.avail_in);
    NoteTaken(input->first(taken), written);
    *input = input->subspan(taken);
    *output = output->subspan(written);
    if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT && code != ISAL_OUT_OVERFLOW) {
      problem_ = code == ISAL_INCORRECT_CHECKSUM ? "its checksum or length does not match"
                                                 : "it does not decompress";
      return Result::kDamaged;
    }
    if (stream.block_state == ISAL_BLOCK_FINISH) {
      Restart();
      return Result::kMemberEnds;
    }
    if (output->empty()) return Result::kNeedsRoom;
    if (input->empty()) return Result::kNeedsInput;
  }
}

// ISA-L counts the copy that it refuses, whose bytes nobody wrote.
std::size_t GzipDecompressor::TrueOf(std::span<const std::byte> input, std::size_t written) const {
  constexpr std::size_t kLongestCopy = 258;
  if (state_->start.size() >= kMostStart) return written - std::min(written, kLongestCopy);
  const std::size_t content = TrueContent(state_->start, input);
  return std::min<std::size_t>(written,
                               content - std::min<std::uint64_t>(content, state_->content));
}

void GzipDecompressor::NoteTaken(std::span<const std::byte> taken, std::size_t written) {
  state_->content += written;
  if (state_->content >= kFarthest || state_->start.size() >= kMostStart) return;
  const auto fits = taken.first(std::min(taken.size(), kMostStart - state_->start.size()));
  state_->start.insert(state_->start.end(), fits.begin(), fits.end());
}

}  // namespace ringfeed
