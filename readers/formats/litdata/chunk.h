#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/litdata/index.h"
#include "readers/formats/record_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A chunk whose items stand in units of many: frames of zstd, or batches of Arrow. What it says of
/// their places was read before. Immutable, thread safe.
class LitDataChunk {
 public:
  struct Unit {
    std::uint64_t begin = 0;  ///< in the file
    std::uint64_t end = 0;
    std::uint64_t first = 0;  ///< item
    std::uint32_t items = 0;
    std::string lost{};  ///< why they cannot be had; empty: they can
  };

  virtual ~LitDataChunk() = default;

  const std::vector<Unit>& units() const { return units_; }
  std::uint64_t items() const {
    return units_.empty() ? 0 : units_.back().first + units_.back().items;
  }
  /// Where its units begin.
  std::uint64_t head_bytes() const { return head_bytes_; }
  /// Why nothing of the file can be had.
  const Status& hopeless() const { return hopeless_; }
  /// Appends the items of a unit to *records, null ones for those that are damaged, with *problem.
  /// kResourceExhausted if `memory` has no more.
  Status Decode(const Unit& unit, const FrameInput& input, const FramerOptions& options,
                std::vector<RecordSpan>* records, std::string* problem) const;

 protected:
  /// As Decode; what it returns otherwise makes all items damaged.
  virtual Status DecodeUnit(const Unit& unit, const FrameInput& input, const FramerOptions& options,
                            std::vector<RecordSpan>* records) const = 0;
  /// Appends the next unit, at that place in a file of so many bytes.
  void AddUnit(std::uint64_t begin, std::uint64_t bytes, std::uint32_t items,
               std::uint64_t file_bytes, std::string lost = {});

  std::vector<Unit> units_;
  std::uint64_t head_bytes_ = 0;  // is set before the first unit
  std::uint64_t end_ = 0;         // of the last unit that has a place
  Status hopeless_;
  SampleLayout layout_;
};

/// Reads a piece of a chunk; fails unless it is there.
using ReadChunkAt = std::function<Status(std::uint64_t offset, std::span<std::byte> to)>;

/// What is known of a chunk besides its bytes.
struct KnownChunk {
  std::shared_ptr<const LitDataIndex> index{};  ///< null: there is none beside it
  const LitDataIndex::Chunk* listed = nullptr;  ///< what that says of it, if it does
};

/// The chunk of a file of so many bytes, by its first and last ones; null if its items stand alone.
/// The index is known. Fails if the file cannot be read.
Status ReadLitDataChunk(const ReadChunkAt& read, std::uint64_t file_bytes, const KnownChunk& known,
                        std::shared_ptr<const LitDataChunk>* chunk);
/// The format of such a file.
Status MakeLitDataFormat(const ReadChunkAt& read, std::uint64_t file_bytes, KnownChunk known,
                         std::shared_ptr<const Format>* format);

/// One with its items in Arrow's IPC file (Arrow's Columnar.rst, and its schemas File.fbs,
/// Message.fbs and Schema.fbs) of so many bytes from `begin` on.
Status ReadArrowChunk(const ReadChunkAt& read, std::uint64_t begin, std::uint64_t bytes,
                      const LitDataIndex& index, std::uint64_t items,
                      std::shared_ptr<const LitDataChunk>* chunk);

/// Framers and the index of such a chunk.
std::unique_ptr<Framer> NewChunkFramer(const FramerOptions& options, const SampleLayout& layout,
                                       std::shared_ptr<const LitDataChunk> chunk);
std::unique_ptr<UnitFramer> NewChunkUnitFramer(const FramerOptions& options,
                                               std::shared_ptr<const LitDataChunk> chunk);
std::shared_ptr<const RecordIndex> ChunkRecords(std::shared_ptr<const LitDataChunk> chunk,
                                                std::uint64_t file_bytes);

}  // namespace ringfeed
