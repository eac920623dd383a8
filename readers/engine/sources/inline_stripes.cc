#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "readers/engine/blocks/block.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/formats/compression/decompressed_reader.h"

namespace ringfeed {

namespace {

/// Reads in the caller's thread, block by block into one run: each block is framed while it is hot,
/// and no record is ever moved, since the next block lands right after it.
class InlineStripes : public StripeReader {
 public:
  using StripeReader::StripeReader;

  bool ReadPart(Block* block) override;

 protected:
  /// Fills `to` with the bytes at `offset`, the end of the call before. *got is less at the end of
  /// the file, or with a failure.
  virtual Status ReadMore(std::uint64_t offset, std::span<std::byte> to, std::size_t* got);
  /// Whether ReadMore goes on after its failure, with bytes that do not follow those before it;
  /// *loss then gets the text for that.
  virtual bool Resume(std::string* /*loss*/) { return false; }
  /// After a failure of ReadMore before `end`: the place from which on the bytes that it gave are
  /// not to be trusted (`end`: all are). A part of them was framed into `block`; *why gets the text
  /// for that.
  virtual std::uint64_t DoubtfulFrom(const Block& /*block*/, std::uint64_t end,
                                     std::string* /*why*/) const {
    return end;
  }

 private:
  /// After a stripe's end this much more is read at once, for the record that straddles it.
  static constexpr std::size_t kSlackBytes = 4096;
  /// At most so much room is left for that if lengths cannot be checked against the end.
  static constexpr std::size_t kMostRoomBytes = std::size_t{4} << 20;

  void ReadRecords(Block* block);
  /// Starts a run with what the part before read and did not frame.
  bool StartRun(Block* block, std::size_t planned);
  /// One read and one framing. False if the part is at its end.
  bool ReadOnce(Block* block, std::uint64_t part_end);
  /// No more came after `end`. True if it is damage to be skipped, and something follows it.
  bool PassFailure(Block* block, std::uint64_t end, const Status& failure);
  /// Makes room after the unfinished record, of which `need` bytes are wanted, or moves it to a
  /// larger run.
  bool Grow(Block* block, std::size_t need);
  /// Looks for the file's end: before it is seen, the stripe that was just framed may be the last.
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

bool InlineStripes::ReadPart(Block* block) {
  if (position_ < limit() || (file_bytes_ == 0 && stripe_ == 0)) ReadRecords(block);
  if (file_bytes_ == kUnknownSize && position_ >= limit()) LookForEnd(block);
  FinishPart(block);
  return true;
}

Status InlineStripes::ReadMore(std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
  Status status;
  if (file_->loads_ahead()) {
    const InputTimer timer(*context_->read_clock, *context_->wait_clock);
    status = file_->ReadAt(offset, to, got);
  } else {
    const StageTimer timer(*context_->read_clock);
    status = file_->ReadAt(offset, to, got);
  }
  if (!status.ok()) status = ReadAround(status, offset, to, got);
  context_->read_bytes->Add(*got);
  return status;
}

bool InlineStripes::StartRun(Block* block, std::size_t planned) {
  const std::uint64_t behind =
      file_bytes_ == kUnknownSize ? kMostRoomBytes : file_bytes_ - (position_ + planned);
  const std::size_t room = std::max(
      kSlackBytes, static_cast<std::size_t>(std::min<std::uint64_t>(2 * largest_record_, behind)));
  run_ = Allocate(block, std::max(planned, unused_.size()) + room);
  if (!run_) return false;
  base_ = position_;
  fill_ = unused_.size();
  std::copy_n(unused_.data(), fill_, run_.data);
  unused_.clear();
  wanted_ = std::max(planned + kSlackBytes, fill_);
  return true;
}

bool InlineStripes::Grow(Block* block, std::size_t need) {
  const std::size_t before = used();
  const std::size_t have = fill_ - before;
  // If no end is known to check a length against, it is believed only as far as bytes come: so a
  // false length takes no memory.
  if (file_bytes_ == kUnknownSize) {
    need = std::min(need, std::max(2 * have, context_->options->io.block_bytes));
  }
  if (context_->arena->Extend(&run_, before + need + kSlackBytes)) return true;
  const SlabRun larger = Allocate(block, need + kSlackBytes);
  if (!larger) return false;
  std::copy_n(run_.data + before, have, larger.data);
  if (before > 0) {
    // Records that overlap reach past what was consumed.
    block->runs.push_back(context_->trim ? context_->arena->Trim(run_, fill_) : run_);
  } else {
    context_->arena->Free(run_);  // nothing of it was framed
  }
  run_ = larger;
  base_ += before;
  fill_ = have;
  return true;
}

bool InlineStripes::ReadOnce(Block* block, std::uint64_t part_end) {
  const std::uint64_t left = file_bytes_ - (base_ + fill_);
  const auto ask = static_cast<std::size_t>(std::min<std::uint64_t>(
      {left, context_->options->io.block_bytes, wanted_ - fill_, run_.bytes - fill_}));
  std::size_t got = 0;
  Status failure;
  if (ask > 0) failure = ReadMore(base_ + fill_, {run_.data + fill_, ask}, &got);
  fill_ += got;
  if (file_bytes_ == kUnknownSize && got < ask && failure.ok()) SetEnd(base_ + fill_);
  const bool ended = failure.ok() && (base_ + fill_ >= file_bytes_ || got < ask);
  if (!failure.ok()) leaves_sums_from_ = FrameInput::kLeavesNone;
  const std::size_t need =
      FrameAround(block, {run_.data + used(), fill_ - used()}, part_end, ended);
  // What follows this part's end comes later: the next part meets the failure again.
  if (!failure.ok()) return position_ < part_end && PassFailure(block, base_ + fill_, failure);
  if (got < ask && base_ + fill_ < file_bytes_) {
    NoteShortFile(block, base_ + fill_);
    return false;
  }
  if (need == 0 || ended) return false;
  largest_record_ = std::max(largest_record_, need);
  wanted_ = std::max(wanted_, used() + need);
  const bool fits = used() + need <= run_.bytes;
  if (fits || (file_bytes_ == kUnknownSize && fill_ < run_.bytes)) return true;
  if (!Grow(block, need)) return false;
  wanted_ = used() + need + kSlackBytes;
  return true;
}

bool InlineStripes::PassFailure(Block* block, std::uint64_t end, const Status& failure) {
  if (!block->status.ok()) return false;  // an earlier record failed, which ends the file
  const OpenOptions& options = *context_->options;
  std::string doubt;
  const std::uint64_t doubtful = std::min(position_, DoubtfulFrom(*block, end, &doubt));
  std::unique_ptr<Framer> framer;
  if (options.on_damage == OnDamage::kSkip) {
    const std::uint64_t at = position_;
    Frame(block, {}, at, true);     // tells what it was passing over
    block->frame.warnings.clear();  // this is not the file's end
    // If the file's size is known the framer takes that for its end, and says that it shrank.
    if (file_bytes_ != kUnknownSize) {
      std::erase_if(block->frame.damage,
                    [at](const DamagedRange& range) { return range.begin >= at; });
    }
    framer = format_->NewFramerBehindGap(
        {file_->name(), kUnknownSize, OnDamage::kSkip, options.max_record_bytes}, end);
  }
  std::string loss;
  if (framer == nullptr || !Resume(&loss)) {
    if (file_bytes_ == kUnknownSize) SetEnd(end);
    position_ = doubtful;
    NoteReadFailure(block, end, Status(failure.code(), failure.message() + doubt, failure.place()));
    SortDamage(block);
    return false;
  }
  framer_ = std::move(framer);
  block->frame.damage.push_back({file_->name(), doubtful, end, loss + doubt});
  SortDamage(block);
  position_ = end;
  return true;
}

void InlineStripes::ReadRecords(Block* block) {
  const std::uint64_t part_end = part_limit();
  if (!StartRun(block, static_cast<std::size_t>(part_end - position_))) return;
  while (ReadOnce(block, part_end)) {
  }
  if (base_ + fill_ > position_) {
    unused_.assign(run_.data + used(), run_.data + fill_);
  }
  block->runs.push_back(context_->trim ? context_->arena->Trim(run_, fill_) : run_);
}

void InlineStripes::LookForEnd(Block* block) {
  if (!unused_.empty() || position_ > limit() || !block->status.ok()) return;
  unused_.resize(kSlackBytes);
  std::size_t got = 0;
  const Status failure = ReadMore(position_, unused_, &got);
  unused_.resize(got);
  if (got > 0) return;  // the next read meets the failure again
  if (failure.ok()) {
    SetEnd(position_);
    Frame(block, {}, position_, true);
  } else {
    PassFailure(block, position_, failure);
  }
}

/// Stripes of the content of a compressed file. Their offsets are those of the decompressed bytes.
class DecompressedStripes final : public InlineStripes {
 public:
  /// The file had so many bytes when it was scheduled.
  DecompressedStripes(LaneContext* context, StripeInput input, std::uint64_t scheduled_bytes)
      : InlineStripes(context, input),
        scheduled_bytes_(scheduled_bytes),
        decompressed_(input.compression, [this](std::span<std::byte> buffer, std::size_t* got) {
          return ReadCompressed(buffer, got);
        }) {}

  bool ReadPart(Block* block) override {
    const bool done = InlineStripes::ReadPart(block);
    doubtful_.Note(*block, decompressed_.member_begin());
    return done;
  }
  /// Decompressing takes long enough to be begun early.
  bool frames_hot() const override { return false; }

 protected:
  Status ReadMore(std::uint64_t /*offset*/, std::span<std::byte> to, std::size_t* got) override {
    const StageTimer timer(*context_->decompress_clock);
    *got = 0;
    std::size_t some = 1;
    while (!to.empty() && some > 0) {
      const Status status = decompressed_.Read(to, &some);
      if (!status.ok()) return status;
      *got += some;
      to = to.subspan(some);
    }
    return to.empty() ? Status() : WhyShort();
  }

  std::uint64_t DoubtfulFrom(const Block& block, std::uint64_t end,
                             std::string* why) const override {
    if (!decompressed_.damaged()) return end;
    *why = doubtful_.Describe(block, decompressed_.member_begin(), end);
    return decompressed_.member_begin();
  }

  bool Resume(std::string* loss) override {
    const StageTimer timer(*context_->decompress_clock);
    return decompressed_.FindNextMember(loss);
  }

 private:
  /// Whole members may be missing, or all of them: that is no damage of what is left.
  Status WhyShort() const {
    if (file_->size() >= scheduled_bytes_) return {};
    return Status(StatusCode::kTruncated, "the file ends at " + std::to_string(file_->size()) +
                                              ", it had " + std::to_string(scheduled_bytes_) +
                                              " bytes when it was first looked at");
  }
  Status ReadCompressed(std::span<std::byte> buffer, std::size_t* got) {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t left = file_->size() - compressed_offset_;
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left));
    *got = 0;
    if (bytes == 0) return {};
    const Status status = file_->ReadAt(compressed_offset_, buffer.first(bytes), got);
    compressed_offset_ += *got;
    context_->read_bytes->Add(*got);
    const auto time = std::chrono::steady_clock::now() - begin;
    context_->read_clock->Add(time);
    context_->decompress_clock->Add(-time);  // which runs meanwhile
    return status;
  }

  const std::uint64_t scheduled_bytes_;
  DecompressedReader decompressed_;
  DoubtfulRecords doubtful_;
  std::uint64_t compressed_offset_ = 0;
};

}  // namespace

std::unique_ptr<StripeReader> MakeInlineStripes(LaneContext* context, StripeInput input) {
  return std::make_unique<InlineStripes>(context, std::move(input));
}

std::unique_ptr<StripeReader> MakeDecompressedStripes(LaneContext* context, StripeInput input) {
  const std::uint64_t bytes = std::exchange(input.bytes, kUnknownSize);
  input.stripes = kUnknownSize;
  return std::make_unique<DecompressedStripes>(context, std::move(input), bytes);
}

}  // namespace ringfeed
