#include "readers/compression/gzip_decompressor.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>

namespace ringfeed {
namespace {

// ISA-L counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

std::string_view ProblemOf(int code) {
  switch (code) {
    case ISAL_INVALID_WRAPPER:
      return "no header of gzip";
    case ISAL_UNSUPPORTED_METHOD:
      return "an unknown method";
    case ISAL_NEED_DICT:
      return "it needs a dictionary";
    case ISAL_INCORRECT_CHECKSUM:
      return "its checksum or length does not match";
    default:
      return "it does not decompress";
  }
}

}  // namespace

struct GzipDecompressor::State {
  inflate_state stream;
};

GzipDecompressor::GzipDecompressor() : state_(std::make_unique<State>()) { Restart(); }

GzipDecompressor::~GzipDecompressor() = default;

void GzipDecompressor::Restart() {
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = ISAL_GZIP;
  inside_ = false;
  problem_ = {};
}

Decompressor::Result GzipDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  inflate_state& stream = state_->stream;
  while (true) {
    const auto in = static_cast<std::uint32_t>(std::min(input->size(), kMostAtOnce));
    const auto out = static_cast<std::uint32_t>(std::min(output->size(), kMostAtOnce));
    inside_ = inside_ || in > 0;
    stream.next_in = const_cast<std::uint8_t*>(
        reinterpret_cast<const std::uint8_t*>(input->data()));  // it is only read
    stream.avail_in = in;
    stream.next_out = reinterpret_cast<std::uint8_t*>(output->data());
    stream.avail_out = out;
    const int code = isal_inflate(&stream);
    // Where a stream is damaged it may have counted bytes that it had hoped for.
    *input = input->subspan(std::min(in, in - stream.avail_in));
    *output = output->subspan(out - stream.avail_out);
    if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT && code != ISAL_OUT_OVERFLOW) {
      problem_ = ProblemOf(code);
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

}  // namespace ringfeed
