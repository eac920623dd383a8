#include "readers/compression/inflater.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>

namespace ringfeed {
namespace {

// ISA-L counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

std::string_view ProblemOf(int code) {
  switch (code) {
    case ISAL_INVALID_WRAPPER:
      return "no header of a compressed stream";
    case ISAL_UNSUPPORTED_METHOD:
      return "a compressed stream of an unknown method";
    case ISAL_NEED_DICT:
      return "a compressed stream that needs a dictionary";
    case ISAL_INCORRECT_CHECKSUM:
      return "the compressed stream's checksum or length does not match";
    default:
      return "a compressed stream that does not decompress";
  }
}

}  // namespace

struct Inflater::State {
  inflate_state stream;
};

Inflater::Inflater(DeflateWrapper wrapper) : wrapper_(wrapper), state_(std::make_unique<State>()) {
  Restart();
}

Inflater::~Inflater() = default;

void Inflater::Restart() {
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = wrapper_ == DeflateWrapper::kGzip ? ISAL_GZIP : ISAL_ZLIB;
  inside_ = false;
  problem_ = {};
}

Inflater::Result Inflater::Inflate(std::span<const std::byte>* input,
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
    *input = input->subspan(in - stream.avail_in);
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
