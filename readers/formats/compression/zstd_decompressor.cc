#include "readers/formats/compression/zstd_decompressor.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>

namespace ringfeed {
namespace {

// RFC 8878: a frame, and one to be passed over, of which there are sixteen.
constexpr std::uint32_t kFrameMagic = 0xFD2FB528;
constexpr std::uint32_t kSkippableMagic = 0x184D2A50;
constexpr std::uint32_t kSkippableMask = 0xFFFFFFF0;
constexpr std::size_t kMagicBytes = 4;
constexpr unsigned kByteBits = 8;

}  // namespace

struct ZstdDecompressor::Close {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

struct ZstdDecompressor::State {
  std::unique_ptr<ZSTD_DStream, Close> stream{ZSTD_createDStream()};
};

ZstdDecompressor::ZstdDecompressor() : state_(std::make_unique<State>()) {
  if (state_->stream == nullptr) throw std::bad_alloc();
}

ZstdDecompressor::~ZstdDecompressor() = default;

void ZstdDecompressor::Restart() {
  ZSTD_DCtx_reset(state_->stream.get(), ZSTD_reset_session_only);
  inside_ = false;
  problem_ = {};
  wanted_ = 1;
  holds_output_ = false;
  magic_ = 0;
  magic_bytes_ = 0;
}

// libzstd takes frames of its versions before the format was fixed, where it meets their magic at
// the start of a call: whether it does would depend on where the input is cut.
bool ZstdDecompressor::MayBegin(std::span<const std::byte> input) const {
  std::uint32_t magic = magic_;
  for (std::size_t at = magic_bytes_; at < kMagicBytes && !input.empty(); ++at) {
    const unsigned shift = kByteBits * static_cast<unsigned>(at);
    magic |= std::to_integer<std::uint32_t>(input.front()) << shift;
    input = input.subspan(1);
    const auto seen = static_cast<std::uint32_t>((std::uint64_t{1} << (shift + kByteBits)) - 1);
    const bool frame = magic == (kFrameMagic & seen);
    const bool skippable = (magic & kSkippableMask) == (kSkippableMagic & seen);
    if (!frame && !skippable) return false;
  }
  return true;
}

void ZstdDecompressor::NoteTaken(std::span<const std::byte> input) {
  for (; magic_bytes_ < kMagicBytes && !input.empty(); input = input.subspan(1)) {
    magic_ |= std::to_integer<std::uint32_t>(input.front()) << kByteBits * magic_bytes_++;
  }
}

Decompressor::Result ZstdDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  while (true) {
    inside_ = inside_ || !input->empty();
    // What it asks for, and nothing before it has written all: where a call fails, what that took
    // and wrote is not told.
    const std::size_t given = holds_output_ ? 0 : std::min(input->size(), wanted_);
    if (!MayBegin(input->first(given))) {
      problem_ = "no frame of zstd starts here";
      return Result::kDamaged;
    }
    ZSTD_inBuffer in{input->data(), given, 0};
    ZSTD_outBuffer out{output->data(), output->size(), 0};
    const std::size_t code = ZSTD_decompressStream(state_->stream.get(), &out, &in);
    NoteTaken(input->first(in.pos));
    *input = input->subspan(in.pos);
    *output = output->subspan(out.pos);
    if (ZSTD_isError(code) != 0) {
      // As the others take theirs; the call itself says that it took nothing.
      const bool checksum = ZSTD_getErrorCode(code) == ZSTD_error_checksum_wrong;
      if (checksum) *input = input->subspan(given - in.pos);
      problem_ = ZSTD_getErrorName(code);
      return Result::kDamaged;
    }
    wanted_ = std::max<std::size_t>(code, 1);
    holds_output_ = output->empty();
    if (code == 0 && inside_) {
      inside_ = false;
      magic_ = 0;
      magic_bytes_ = 0;
      return Result::kMemberEnds;
    }
    if (output->empty()) return Result::kNeedsRoom;
    if (input->empty()) return Result::kNeedsInput;
  }
}

}  // namespace ringfeed
