#pragma once

#include <memory>

#include "readers/compression/decompressor.h"

namespace ringfeed {

/// zstd's frames by libzstd, with their checksums where they have one. A window of more than
/// 128 MiB, which needs as much memory, is refused, as the zstd command does by default.
class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor();
  ~ZstdDecompressor() override;

  Result Decompress(std::span<const std::byte>* input, std::span<std::byte>* output) override;
  void Restart() override;

 private:
  struct Close;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringfeed
