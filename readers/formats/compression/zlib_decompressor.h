#pragma once

#include <memory>

#include "readers/formats/compression/decompressor.h"

namespace ringfeed {

/// zlib's streams (RFC 1950) with their Adler-32, by zlib itself: ISA-L 2.30 takes bytes from
/// behind a stream and keeps them, so that another stream could not follow.
class ZlibDecompressor final : public Decompressor {
 public:
  ZlibDecompressor();
  ~ZlibDecompressor() override;

  Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) override;
  void Restart() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringfeed
