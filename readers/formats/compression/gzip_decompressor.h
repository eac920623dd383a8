#pragma once

#include <memory>

#include "readers/formats/compression/decompressor.h"

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
  /// How many of the bytes that a call wrote are true, where it found a distance too far.
  std::size_t TrueOf(std::span<const std::byte> input, std::size_t written) const;
  void NoteTaken(std::span<const std::byte> taken, std::size_t written);

  std::unique_ptr<State> state_;
};

}  // namespace ringfeed
