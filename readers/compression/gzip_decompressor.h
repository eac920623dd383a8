#pragma once

#include <memory>

#include "readers/compression/decompressor.h"

namespace ringfeed {

/// gzip's members (RFC 1952) by ISA-L, with their CRC-32 and length.
class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor();
  ~GzipDecompressor() override;

  Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) override;
  void Restart() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringfeed
