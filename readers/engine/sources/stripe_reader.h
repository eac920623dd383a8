#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "base/memory/arena.h"
#include "io/careful_reads.h"
#include "io/direct_reads.h"
#include "io/input_file.h"
#include "readers/engine/blocks/block.h"
#include "readers/engine/blocks/late_sums.h"
#include "readers/engine/sources/worker_io.h"
#include "readers/engine/waiting/stage_clock.h"
#include "readers/formats/examined_file.h"
#include "readers/formats/format.h"
#include "ringfeed/open_options.h"

namespace ringfeed {

/// What the lanes of a thread may read further ahead of stores' objects than of files: answers take
/// round trips.
struct StoreAhead {
  std::size_t lane_bytes = 0;  ///< of slabs, for each lane; 0 if nothing is of a store
  std::size_t lanes = 1;       ///< that share the thread's engine of stores
};

/// What a reader thread lends to the lanes that it owns. One per thread.
struct LaneContext {
  const OpenOptions* options = nullptr;
  ElementCheck check_elements{};  ///< FramerOptions' own
  FormatCheck check_format{};     ///< null if the format is named
  std::shared_ptr<Arena> arena;
  std::stop_token stop;  ///< requested when nobody takes what is read any more
  WorkerIo* io = nullptr;
  StoreAhead store_ahead{};
  DirectReads* direct = nullptr;        ///< reads go into its memory, which `arena` is of
  const std::byte* last_run = nullptr;  ///< the memory that the block before this one was read to
  bool trim = false;  ///< blocks are held for long: give the unused tail of their run back
  /// Which sums framing leaves; FillBlock takes those that may not be left. Null: none.
  const LateSums* sums = nullptr;
  bool fails_in_order = false;  ///< as Block
  bool written = true;          ///< a parser will copy out of the blocks; else they are handed out
  StageClock* read_clock = nullptr;
  StageClock* wait_clock = nullptr;  ///< of waits for the medium
  StageClock* decompress_clock = nullptr;
  StageClock* frame_clock = nullptr;
  StageCount* read_bytes = nullptr;

  /// Whether a lane that waits for so many reads may ask a store for one more that it does not
  /// need yet: no lane takes more than its part of what the engine has room for.
  bool MayAskStore(std::size_t waits_for) const {
    return waits_for * store_ahead.lanes < io->StoreReads();
  }
};

/// Room after a stripe for the record that straddles its end, if an engine reads it.
inline constexpr std::size_t kStripeRoomBytes = 256 * 1024;
/// Bytes of the parts that stripes come in if a block is written in file order: about one block,
/// and not so few that a slab is almost empty.
std::size_t PartBytes(const OpenOptions& options, std::size_t slab_bytes);
/// Bytes of the parts of what is in memory already and is soon written: the part that is written
/// and the next one, which is fetched meanwhile, fit together into a core's second cache.
inline constexpr std::size_t kMemoryPartBytes = 128 * 1024;

/// Brings one file's stripes into blocks, first to last: reads, frames, checks and locates. Used by
/// one thread.
class StripeReader {
 public:
  /// Reads `file`, which was scheduled as `scheduled`.
  StripeReader(LaneContext* context, std::shared_ptr<InputFile> file,
               const ExaminedFile& scheduled);
  virtual ~StripeReader() = default;

  /// Adds the next records of the current stripe to `block`, and sets its turn_ends if they are its
  /// last. False if the medium has not delivered yet: call again with the same block. A block whose
  /// status is set ends the file.
  virtual bool ReadPart(Block* block) = 0;
  /// The bytes in memory that the next part will start with; empty if they are not in memory.
  virtual std::span<const std::byte> Upcoming() const { return {}; }
  /// Whether ReadPart never waits for a medium, and the last one read all bytes: then they are in
  /// the cache, and should be written soon.
  virtual bool frames_hot() const { return true; }
  std::uint64_t stripes_left() const { return stripes_ - stripe_; }

 protected:
  /// File offset before which the records of the current stripe start.
  std::uint64_t limit() const;
  /// The end of this part. A part stays in a core's cache from framing to writing, so that a block
  /// in file order is written while it is hot.
  std::uint64_t part_limit() const;
  /// Frames the records that start before `end` in `bytes`, which are at position_, and moves
  /// position_ on. Returns the framer's need for more.
  std::size_t Frame(Block* block, std::span<const std::byte> bytes, std::uint64_t end, bool at_end);
  /// The same if the medium did not give some of these bytes (careful_): the bytes around them are
  /// framed, as the format finds them.
  std::size_t FrameAround(Block* block, std::span<const std::byte> bytes, std::uint64_t end,
                          bool at_end);
  /// Frames to the position, in front of a gap: the framer tells what it was passing over, and
  /// takes the gap for no end of the file.
  void FrameToGap(Block* block);
  /// After a read failed that brought *got bytes of `buffer`, from `offset` on: reads what there
  /// is. If damage is skipped, that is all except the pages that cannot be read, which careful_
  /// notes. Else it is what precedes the first of them.
  Status ReadAround(const Status& failure, std::uint64_t offset, std::span<std::byte> buffer,
                    std::size_t* got);
  /// Sorts damage: untrusted bytes begin before what was noted earlier.
  static void SortDamage(Block* block);
  /// Sets the end of an input of unknown size: it has that many bytes.
  void SetEnd(std::uint64_t bytes);
  /// Notes that the file ends before its size at opening.
  void NoteShortFile(Block* block, std::uint64_t end);
  /// Ends this part, and the stripe once all records that start in it were framed.
  void FinishPart(Block* block);
  /// A read failed for good at `offset`: a failure, or, if damage is skipped, the rest of the
  /// file.
  void NoteReadFailure(Block* block, std::uint64_t offset, const Status& status);
  /// A run, or a failure in the block that says what to change.
  SlabRun Allocate(Block* block, std::size_t bytes);

  LaneContext* const context_;
  const std::shared_ptr<InputFile> file_;
  const std::shared_ptr<const Format> format_;
  std::unique_ptr<Framer> framer_;
  /// The file's; kUnknownSize for what a compressed one decompresses to.
  std::uint64_t file_bytes_;
  std::uint64_t stripes_;
  const bool has_grown_;  ///< since it was scheduled
  /// As FrameInput. Not any more if the bytes after the last record cannot be read: a checksum may
  /// be left only if they are a header.
  std::size_t leaves_sums_from_;
  bool left_most_ = false;  ///< most of the records framed last left their checksums
  BlockMemory memory_;
  CarefulReads careful_;
  std::uint64_t framed_from_ = 0;  ///< the first place that framer_ has seen
  std::uint64_t stripe_ = 0;
  std::uint64_t position_ = 0;  ///< the start of the next record
  std::uint64_t records_ = 0;   ///< framed before the current part, damaged ones too

  FramerOptions Framing(OnDamage on_damage) const;

 private:
  /// Goes on at `to`, after bytes that cannot be read. False if nothing tells what is there: the
  /// rest of the file is lost.
  bool PassUnreadable(Block* block, std::uint64_t to, const Status& why);
  /// Makes rows from that one on, of `bytes` at `offset`, damaged if they cannot be read.
  void LoseUnreadable(Block* block, std::size_t first_row, std::span<const std::byte> bytes,
                      std::uint64_t offset);
  /// Whether records after the one that failed are framed too (Block::fails_in_order).
  bool GoesOnBehind(const Block& block, std::size_t first_row, std::span<const std::byte> bytes,
                    const Status& failure) const;
  void GoOnBehind(Block* block, const Status& failure);
  /// After a failure, the damaged rows from there on fail too.
  void FailDamaged(Block* block, std::size_t first_row);

  Status failure_;  ///< after which framing went on; OK: none
  std::uint64_t failed_at_ = 0;
};

/// Of a file that is not in memory: an engine reads ahead.
std::unique_ptr<StripeReader> MakeAsyncStripes(LaneContext* context,
                                               std::shared_ptr<InputFile> file,
                                               const ExaminedFile& scheduled, ReadEngine* engine);
/// Of a file in the page cache, a store, or a compressed file: read, and decompressed, in the
/// caller's thread.
std::unique_ptr<StripeReader> MakeInlineStripes(LaneContext* context,
                                                std::shared_ptr<InputFile> file,
                                                const ExaminedFile& scheduled);
/// The reader that suits the file's path.
std::unique_ptr<StripeReader> MakeStripeReader(LaneContext* context,
                                               std::shared_ptr<InputFile> file,
                                               const ExaminedFile& scheduled, Status* status);

}  // namespace ringfeed
