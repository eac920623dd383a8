#include "readers/engine/sources/inline_stripes.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

namespace {

// What is not to be trusted begins in front of what was noted before.
void SortDamage(Block* block) {
  std::stable_sort(block->frame.damage.begin(), block->frame.damage.end(),
                   [](const DamagedRange& a, const DamagedRange& b) { return a.begin < b.begin; });
}

}  // namespace

bool InlineStripes::ReadPart(Block* block) {
  if (position_ < limit() || (file_bytes_ == 0 && stripe_ == 0)) ReadRecords(block);
  if (file_bytes_ == kUnknownSize && position_ >= limit()) LookForEnd(block);
  FinishPart(block);
  return true;
}

Status InlineStripes::ReadMore(std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
  const StageTimer timer(*context_->read_clock);
  const Status status = file_->ReadAt(offset, to, got);
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
  // A length that can be checked against no end is believed as far as bytes come: one that nothing
  // stands behind takes no memory.
  if (file_bytes_ == kUnknownSize) {
    need = std::min(need, std::max(2 * have, context_->options->io.block_bytes));
  }
  if (context_->arena->Extend(&run_, before + need + kSlackBytes)) return true;
  const SlabRun larger = Allocate(block, need + kSlackBytes);
  if (!larger) return false;
  std::copy_n(run_.data + before, have, larger.data);
  if (before > 0) {
    block->runs.push_back(context_->trim ? context_->arena->Trim(run_, before) : run_);
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
  const std::size_t need = Frame(block, {run_.data + used(), fill_ - used()}, part_end, ended);
  // What stands behind this part comes first: the next part meets the failure again.
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
  if (!block->status.ok()) return false;  // a record before it failed, which ends the file
  const OpenOptions& options = *context_->options;
  std::string doubt;
  const std::uint64_t doubtful = std::min(position_, DoubtfulFrom(*block, end, &doubt));
  std::unique_ptr<Framer> framer;
  if (options.on_damage == OnDamage::kSkip) {
    Frame(block, {}, position_, true);  // to be told of what it was passing over
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
  if (got > 0) return;  // a failure is met again
  if (failure.ok()) {
    SetEnd(position_);
    Frame(block, {}, position_, true);
  } else {
    PassFailure(block, position_, failure);
  }
}

}  // namespace ringfeed
