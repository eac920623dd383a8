#include "readers/compression/zstd_decompressor.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>

namespace ringfeed {

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
}

Decompressor::Result ZstdDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  while (true) {
    inside_ = inside_ || !input->empty();
    // What it asks for, and nothing before it has written all: where a call fails, what that took
    // and wrote is not told.
    const std::size_t given = holds_output_ ? 0 : std::min(input->size(), wanted_);
    ZSTD_inBuffer in{input->data(), given, 0};
    ZSTD_outBuffer out{output->data(), output->size(), 0};
    const std::size_t code = ZSTD_decompressStream(state_->stream.get(), &out, &in);
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
      return Result::kMemberEnds;
    }
    if (output->empty()) return Result::kNeedsRoom;
    if (input->empty()) return Result::kNeedsInput;
  }
}

}  // namespace ringfeed
