#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "readers/formats/compression/decompressor.h"

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
  /// Whether the member's bytes so far and these begin a frame, as far as they go.
  bool MayBegin(std::span<const std::byte> input) const;
  void NoteTaken(std::span<const std::byte> input);

  struct Close;
  struct State;
  std::unique_ptr<State> state_;
  std::uint32_t magic_ = 0;      ///< the member's first bytes, as far as they were seen
  std::size_t magic_bytes_ = 0;  ///< their number
  std::size_t wanted_ = 1;       ///< what libzstd asks for next: a block, a header, the checksum
  bool holds_output_ = false;    ///< there was no room for it
};

}  // namespace ringfeed
