#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/highway_hash.h"
#include "readers/formats/format.h"
#include "ringfeed/status.h"

struct ZSTD_DCtx_s;

namespace ringfeed {

/// Riegeli's files (doc/riegeli_records_file_format.md in github.com/google/riegeli). At each
/// multiple of kBlockBytes a header of kBlockHeaderBytes interrupts the chunk that stands there. A
/// chunk is, little-endian:
///   u64 hash of the header's rest, u64 stored bytes, u64 their hash, u64 kind | records << 8,
///   u64 decoded bytes; then what is stored, and zeros
/// Of a simple chunk ('r') that is a byte that names the compression, a varint, as many bytes of
/// sizes, and the values, sizes and values compressed by themselves.
struct RiegeliLayout {
  static constexpr std::uint64_t kBlockBytes = 65536;
  static constexpr std::uint64_t kBlockHeaderBytes = 24;
  static constexpr std::size_t kChunkHeaderBytes = 40;
  /// Of the signature, with the block's header; no chunk of records begins before.
  static constexpr std::uint64_t kFirstChunk = 64;
  /// The bytes that a chunk's header has at most, with a block's header.
  static constexpr std::size_t kLongestHeader = kChunkHeaderBytes + kBlockHeaderBytes;
  /// "Riegeli/", "records\n", twice.
  static constexpr HighwayKey kHashKey = {0x2f696c6567656952, 0x0a7364726f636572,
                                          0x2f696c6567656952, 0x0a7364726f636572};
};

/// How many bytes a file has of a chunk that begins at `begin`, of so many bytes without headers of
/// blocks.
std::uint64_t RiegeliChunkBytes(std::uint64_t begin, std::uint64_t bytes);

/// What a chunk's header says.
struct RiegeliChunk {
  std::uint64_t stored_bytes = 0;
  std::uint64_t stored_hash = 0;
  std::uint64_t records = 0;
  std::uint64_t decoded_bytes = 0;
  char kind = 0;
  std::uint64_t file_bytes = 0;  ///< with its header, and those of blocks
};

/// Why a chunk cannot be had.
struct ChunkProblem {
  std::string reason{};  ///< empty: it was had
  StatusCode code = StatusCode::kDamaged;
  bool fatal = false;  ///< no damage: there is no memory, or no such decompressor
  bool ok() const { return reason.empty(); }
};

/// Reads the header of the chunk at the start of `bytes`, which stand at `offset` of the file.
ChunkProblem ReadRiegeliHeader(std::span<const std::byte> bytes, std::uint64_t offset,
                               RiegeliChunk* chunk);

/// The decoded content of a simple chunk.
struct RiegeliRecords {
  std::uint64_t count = 0;
  std::span<const std::byte> sizes;   ///< varints, one a record
  std::span<const std::byte> values;  ///< so long as the header said
};

/// Reads simple chunks. One thread.
class RiegeliReader {
 public:
  RiegeliReader();
  ~RiegeliReader();

  /// Reads the chunk at the start of `input`. Values are in the input's bytes or in its memory,
  /// sizes in either or, until the next call, in the reader's. A chunk of more than `most_bytes`,
  /// stored or decoded, is refused, and so is one of another number of records than `records`.
  ChunkProblem Read(const FrameInput& input, std::uint64_t records, std::uint64_t most_bytes,
                    RiegeliRecords* read);
  static constexpr std::uint64_t kAnyNumber = ~std::uint64_t{0};

 private:
  ChunkProblem Decode(const RiegeliChunk& chunk, std::span<const std::byte> stored,
                      std::uint64_t most_size_bytes, FrameMemory* memory, RiegeliRecords* read);
  ChunkProblem Decompress(std::byte compression, std::span<const std::byte> stored,
                          std::span<std::byte> to);

  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> zstd_;  ///< made for the first chunk that needs it
  std::vector<std::byte> joined_;            ///< of a chunk that headers of blocks interrupt
  std::vector<std::byte> sizes_;
};

}  // namespace ringfeed
