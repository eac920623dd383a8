#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "readers/engine/blocks/block.h"
#include "readers/engine/sources/byte_feed.h"
#include "readers/engine/sources/stripe_reader.h"

namespace ringfeed {

namespace {

/// Reads in the caller's thread, block by block into one run: each block is framed while it is hot,
/// and no record is ever moved, since the next block lands right after it.
class InlineStripes final : public StripeReader {
 public:
  InlineStripes(LaneContext* context, std::shared_ptr<InputFile> file,
                const ExaminedFile& scheduled)
      : StripeReader(context, std::move(file), scheduled),
        scheduled_bytes_(scheduled.bytes),
        feed_(context, scheduled.compression,
              [this](std::span<std::byte> to, std::size_t* got) { return ReadFile(to, got); }) {}

  bool ReadPart(Block* block) override;
  /// Decompressing takes long enough to be begun early.
  bool frames_hot() const override { return !feed_.decompresses(); }

 private:
  /// After a stripe's end this much more is read at once, for the record that straddles it.
  static constexpr std::size_t kSlackBytes = 4096;
  /// At most so much room is left for that if lengths cannot be checked against the end.
  static constexpr std::size_t kMostRoomBytes = std::size_t{4} << 20;

  void ReadRecords(Block* block);
  /// The feed's source: the next bytes of the file.
  Status ReadFile(std::span<std::byte> to, std::size_t* got);
  /// Fills `to` with the next bytes. *got is less at their end, or with a failure.
  Status ReadMore(std::span<std::byte> to, std::size_t* got);
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

  const std::uint64_t scheduled_bytes_;  ///< of the file, compressed if it is
  std::uint64_t read_bytes_ = 0;         ///< of the file
  ByteFeed feed_;
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
  feed_.NoteFramed(*block);
  return true;
}

Status InlineStripes::ReadFile(std::span<std::byte> to, std::size_t* got) {
  const std::uint64_t left = file_->size() - std::min(read_bytes_, file_->size());
  to = to.first(static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), left)));
  *got = 0;
  if (to.empty()) return {};
  Status status;
  if (file_->loads_ahead()) {
    const InputTimer timer(*context_->read_clock, *context_->wait_clock);
    status = file_->ReadAt(read_bytes_, to, got);
  } else {
    const StageTimer timer(*context_->read_clock);
    status = file_->ReadAt(read_bytes_, to, got);
  }
  if (!status.ok() && !feed_.decompresses()) status = ReadAround(status, read_bytes_, to, got);
  read_bytes_ += *got;
  context_->read_bytes->Add(*got);
  return status;
}

Status InlineStripes::ReadMore(std::span<std::byte> to, std::size_t* got) {
  *got = 0;
  for (std::size_t some = 1; !to.empty() && some > 0; to = to.subspan(some)) {
    Status status = feed_.Read(to, &some);
    *got += some;
    if (!status.ok()) return status;
  }
  if (to.empty() || !feed_.decompresses() || file_->size() >= scheduled_bytes_) return {};
  // Whole members may be missing, or all of them: that is no damage of what is left.
  return Status(StatusCode::kTruncated, "the file ends at " + std::to_string(file_->size()) +
                                            ", it had " + std::to_string(scheduled_bytes_) +
                                            " bytes when it was first looked at");
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
  if (ask > 0) failure = ReadMore({run_.data + fill_, ask}, &got);
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
  ByteFeed::Gap gap = feed_.GapAt(failure, *block, position_, end);
  if (context_->options->on_damage == OnDamage::kSkip) {
    FrameToGap(block);
    feed_.GoOnBehind(*format_, Framing(OnDamage::kSkip), end, &gap);
  }
  const bool goes_on = gap.framer != nullptr;
  if (goes_on) {
    framer_ = std::move(gap.framer);
    block->frame.damage.push_back({file_->name(), gap.begin, end, gap.Reason()});
    position_ = end;
  } else {
    if (file_bytes_ == kUnknownSize) SetEnd(end);
    position_ = gap.begin;
    NoteReadFailure(block, end, Status(failure.code(), gap.Reason(), failure.place()));
  }
  SortDamage(block);
  return goes_on;
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
  const Status failure = ReadMore(unused_, &got);
  unused_.resize(got);
  if (got > 0) return;  // the next read meets the failure again
  if (failure.ok()) {
    SetEnd(position_);
    Frame(block, {}, position_, true);
  } else {
    PassFailure(block, position_, failure);
  }
}

}  // namespace

std::unique_ptr<StripeReader> MakeInlineStripes(LaneContext* context,
                                                std::shared_ptr<InputFile> file,
                                                const ExaminedFile& scheduled) {
  return std::make_unique<InlineStripes>(context, std::move(file), scheduled);
}

}  // namespace ringfeed
