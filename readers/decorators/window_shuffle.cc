#include "readers/decorators/window_shuffle.h"

#include <utility>

namespace ringfeed {

WindowShuffleStage::WindowShuffleStage(std::uint64_t window, std::uint64_t seed)
    : window_(window),
      seed_(seed),
      draws_(seed, 0, DrawPurpose::kWindowShuffle),
      buckets_(static_cast<std::uint32_t>(window / kBucketPositions + 3)),
      counts_(buckets_),
      ring_(std::size_t{buckets_} * kBucketRows),
      spills_(buckets_) {}

void WindowShuffleStage::Place(Block* block, std::uint32_t row) {
  // Fixed point with 32 fractional bits: the position is i plus the integer part of W * u.
  const std::uint64_t delay = window_ * draws_.At(arrived_);
  const std::uint64_t position = arrived_ + (delay >> 32);
  const auto bucket = static_cast<std::uint32_t>(position / kBucketPositions % buckets_);
  const auto within = static_cast<std::uint32_t>(position % kBucketPositions);
  __builtin_prefetch(&ring_[std::size_t{bucket} * kBucketRows + counts_[bucket] % kBucketRows], 1);
  pending_[pending_rows_++] = {
      bucket, {static_cast<std::uint32_t>(delay), row, block->index * kBucketPositions + within}};
}

void WindowShuffleStage::NextArrival() {
  ++arrived_;
  if (arrived_ % kBucketPositions != 0) return;
  Insert();
  EmitDue();
}

void WindowShuffleStage::Insert() {
  for (std::uint32_t i = 0; i < pending_rows_; ++i) {
    const Pending& pending = pending_[i];
    const std::uint32_t at = counts_[pending.bucket]++;
    if (at < kBucketRows) [[likely]] {
      ring_[std::size_t{pending.bucket} * kBucketRows + at] = pending.held;
    } else {
      spills_[pending.bucket].push_back(pending.held);
    }
  }
  pending_rows_ = 0;
}

void WindowShuffleStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  if (block->index >= blocks_.size()) blocks_.resize(block->index + std::size_t{1});
  blocks_[block->index] = block;
  for (std::uint32_t row = begin; row < end; ++row) {
    Place(block, row);
    NextArrival();
  }
}

void WindowShuffleStage::OnRefs(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) {
    if (ref.block->index >= blocks_.size()) blocks_.resize(ref.block->index + std::size_t{1});
    blocks_[ref.block->index] = ref.block;
    Place(ref.block, ref.row);
    NextArrival();
  }
}

void WindowShuffleStage::EmitDue() {
  // A record still to come has a key of at least arrived_.
  while ((first_bucket_ + 1) * kBucketPositions <= arrived_) EmitBucket();
}

void WindowShuffleStage::EmitBucket() {
  const std::size_t bucket = first_bucket_++ % buckets_;
  const std::uint32_t count = std::exchange(counts_[bucket], 0);
  if (count == 0) return;
  const Held* const first = ring_.data() + bucket * kBucketRows;
  if (count <= kBucketRows) {
    Sort({first, count});
  } else {
    bucket_.assign(first, first + kBucketRows);
    bucket_.insert(bucket_.end(), spills_[bucket].begin(), spills_[bucket].end());
    spills_[bucket].clear();
    Sort(bucket_);
  }
  out_.clear();
  for (const Held& held : sorted_) {
    out_.push_back({blocks_[held.place / kBucketPositions], held.row});
  }
  next_->OnRefs(out_);
}

void WindowShuffleStage::Sort(std::span<const Held> held) {
  // A counting sort by position, then the few of one position by fraction: arrival order is kept
  // among equals, so ties fall to the smaller i.
  std::array<std::uint32_t, kBucketPositions + 1> starts{};
  for (const Held& each : held) ++starts[each.place % kBucketPositions + 1];
  for (std::size_t i = 1; i <= kBucketPositions; ++i) starts[i] += starts[i - 1];
  if (sorted_.size() != held.size()) sorted_.resize(held.size());
  for (const Held& each : held) sorted_[starts[each.place % kBucketPositions]++] = each;
  const auto key = [](const Held& each) {
    return std::uint64_t{each.place % kBucketPositions} << 32 | each.fraction;
  };
  for (std::size_t i = 1; i < sorted_.size(); ++i) {
    const Held each = sorted_[i];
    std::size_t at = i;
    for (; at > 0 && key(each) < key(sorted_[at - 1]); --at) sorted_[at] = sorted_[at - 1];
    if (at != i) sorted_[at] = each;
  }
}

void WindowShuffleStage::Flush() {
  Insert();
  const std::uint64_t last = (arrived_ + window_) / kBucketPositions;
  while (first_bucket_ <= last) EmitBucket();
  arrived_ = 0;
  first_bucket_ = 0;
}

void WindowShuffleStage::OnPassEnd() {
  Flush();
  draws_ = DrawSequence(seed_, ++epoch_, DrawPurpose::kWindowShuffle);
  next_->OnPassEnd();
}

void WindowShuffleStage::OnEnd(const Status& status) {
  Flush();
  next_->OnEnd(status);
}

}  // namespace ringfeed
