#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "readers/engine/sources/stripe_reader.h"

namespace ringfeed {

/// Reads in the caller's thread, block by block into one run: each block is framed while it is hot,
/// and no record is ever moved, since the next block lands right behind it.
class InlineStripes : public StripeReader {
 public:
  using StripeReader::StripeReader;

  bool ReadPart(Block* block) override;

 protected:
  /// Fills `to` with what stands at `offset`, where the call before ended. *got is less where the
  /// file ends, or with a failure.
  virtual Status ReadMore(std::uint64_t offset, std::span<std::byte> to, std::size_t* got);
  /// Whether ReadMore goes on behind its failure, with bytes that do not follow those before it;
  /// *loss is what is to be said of that.
  virtual bool Resume(std::string* /*loss*/) { return false; }
  /// Behind a failure of ReadMore in front of `end`: from where on what it gave is not to be
  /// trusted (`end`: all of it is), part of it framed into `block`; *why gets what is to be said of
  /// that.
  virtual std::uint64_t DoubtfulFrom(const Block& /*block*/, std::uint64_t end,
                                     std::string* /*why*/) const {
    return end;
  }

 private:
  /// Behind a stripe's end this much more is read at once, for the record that straddles it.
  static constexpr std::size_t kSlackBytes = 4096;
  /// As much at most is left for that where lengths cannot be checked against the content's end.
  static constexpr std::size_t kMostRoomBytes = std::size_t{4} << 20;

  void ReadRecords(Block* block);
  /// Starts a run with what the part before read and did not frame.
  bool StartRun(Block* block, std::size_t planned);
  /// One read and one framing. False where the part is at its end.
  bool ReadOnce(Block* block, std::uint64_t part_end);
  /// No more came behind `end`. True where it is damage to be skipped, and there is something
  /// behind it.
  bool PassFailure(Block* block, std::uint64_t end, const Status& failure);
  /// Makes room behind the unfinished record, of which `need` bytes are wanted, or moves it to a
  /// larger run.
  bool Grow(Block* block, std::size_t need);
  /// Whether the stripe that was just framed is the file's last is not known before its end is
  /// seen.
  void LookForEnd(Block* block);
  std::size_t used() const {
    assert(position_ >= base_);
    return static_cast<std::size_t>(position_ - base_);
  }

  SlabRun run_;
  std::uint64_t base_ = 0;         ///< file offset of run_.data[0]
  std::size_t fill_ = 0;           ///< bytes in the run
  std::size_t wanted_ = 0;         ///< bytes that the run should get
  std::vector<std::byte> unused_;  ///< between parts: bytes from position_ on that were read
  std::size_t largest_record_ = 0;
};

}  // namespace ringfeed
