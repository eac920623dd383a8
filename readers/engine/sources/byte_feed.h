#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "readers/engine/blocks/block.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/format.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The bytes of one input, from its start to its end: as its source gives them, or what they
/// decompress to. It says what a failure costs, and goes on behind damage of a compressed input.
/// One thread.
class ByteFeed {
 public:
  /// What a failure of Read costs.
  struct Gap {
    std::uint64_t begin = 0;  ///< the first byte that is lost, or not to be trusted
    std::string loss;
    std::string doubt{};               ///< what is said of the bytes that are not to be trusted
    std::unique_ptr<Framer> framer{};  ///< of what Read gives next; null: nothing follows

    std::string Reason() const { return loss + doubt; }
  };

  ByteFeed(LaneContext* context, Compression compression, DecompressedReader::Source source);

  bool decompresses() const { return decompressed_ != nullptr; }
  /// Fills the front of `to`, as DecompressedReader::Read.
  Status Read(std::span<std::byte> to, std::size_t* got);
  /// Call for every block that was framed.
  void NoteFramed(const Block& block);

  /// Read failed after the bytes before `end`. They were framed up to `position`, the last of them
  /// into `block`, for which NoteFramed was not called yet.
  Gap GapAt(const Status& failure, const Block& block, std::uint64_t position,
            std::uint64_t end) const;
  /// Finds what follows that failure, if anything does and a framer of `format` can tell a record
  /// from other bytes. *gap then has the framer, and its loss tells the place.
  void GoOnBehind(const Format& format, const FramerOptions& options, std::uint64_t end, Gap* gap);

 private:
  LaneContext* context_;
  DecompressedReader::Source source_;                 ///< of an input that is not compressed
  std::unique_ptr<DecompressedReader> decompressed_;  ///< or this
  std::uint64_t member_ = 0;            ///< where the member of the last block begins, decompressed
  std::uint64_t doubtful_records_ = 0;  ///< that were framed of it: its checksum is at its end
};

}  // namespace ringfeed
