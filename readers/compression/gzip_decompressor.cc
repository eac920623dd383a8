#include "readers/compression/gzip_decompressor.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>

#include "readers/compression/gzip_header.h"

namespace ringfeed {
namespace {

// ISA-L counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

}  // namespace

struct GzipDecompressor::State {
  GzipHeader header;
  inflate_state stream;
};

GzipDecompressor::GzipDecompressor() : state_(std::make_unique<State>()) { Restart(); }

GzipDecompressor::~GzipDecompressor() = default;

void GzipDecompressor::Restart() {
  state_->header.Restart();
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = ISAL_GZIP_NO_HDR_VER;
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
    // Where a stream is damaged it may have counted bytes that it had hoped for.
    *input = input->subspan(std::min(in, in - stream.avail_in));
    *output = output->subspan(out - stream.avail_out);
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

}  // namespace ringfeed
