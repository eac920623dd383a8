#include "readers/formats/compression/zlib_decompressor.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace ringfeed {
namespace {

// zlib counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

}  // namespace

struct ZlibDecompressor::State {
  z_stream stream{};
};

ZlibDecompressor::ZlibDecompressor() : state_(std::make_unique<State>()) {
  if (inflateInit(&state_->stream) != Z_OK) throw std::bad_alloc();
}

ZlibDecompressor::~ZlibDecompressor() { inflateEnd(&state_->stream); }

void ZlibDecompressor::Restart() {
  inflateReset(&state_->stream);
  inside_ = false;
  problem_ = {};
}

Decompressor::Result ZlibDecompressor::Decompress(std::span<const std::byte>* input,
                                                  std::span<std::byte>* output) {
  if (!problem_.empty()) return Result::kDamaged;
  z_stream& stream = state_->stream;
  while (true) {
    const std::size_t in = std::min(input->size(), kMostAtOnce);
    const std::size_t out = std::min(output->size(), kMostAtOnce);
    inside_ = inside_ || in > 0;
    stream.next_in =
        const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input->data()));  // only read
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(output->data());
    stream.avail_out = static_cast<uInt>(out);
    const int code = inflate(&stream, Z_NO_FLUSH);
    *input = input->subspan(in - stream.avail_in);
    *output = output->subspan(out - stream.avail_out);
    if (code == Z_STREAM_END) {
      Restart();
      return Result::kMemberEnds;
    }
    // Z_BUF_ERROR: there was nothing to read, or no room.
    if (code != Z_OK && code != Z_BUF_ERROR) {
      problem_ = stream.msg != nullptr ? stream.msg : "it does not decompress";
      return Result::kDamaged;
    }
    if (output->empty()) return Result::kNeedsRoom;
    if (input->empty()) return Result::kNeedsInput;
  }
}

}  // namespace ringfeed
