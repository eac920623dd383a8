#include "readers/decorators/window_shuffle.h"

#include <algorithm>
#include <array>

namespace ringfeed {

WindowShuffleStage::WindowShuffleStage(std::uint64_t window, std::uint64_t seed)
    : window_(window),
      seed_(seed),
      draws_(seed, 0, DrawPurpose::kWindowShuffle),
      ring_(window / kBucketPositions + 3) {
  for (auto& bucket : ring_) bucket.reserve(2 * kBucketPositions);
}

void WindowShuffleStage::Insert(RowRef ref) {
  // Fixed point with 32 fractional bits: the position is i plus the integer part of W * u.
  const std::uint64_t delay = window_ * draws_.At(arrived_);
  const std::uint64_t position = arrived_ + (delay >> 32);
  const std::uint64_t bucket = position / kBucketPositions;
  const std::uint64_t key = (position % kBucketPositions) << 32 | (delay & 0xFFFFFFFFu);
  ring_[bucket % ring_.size()].push_back({key, ref});
}

void WindowShuffleStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  for (std::uint32_t row = begin; row < end; ++row) {
    if (!block->frame.records[row].damaged()) Insert({block, row});
    ++arrived_;
    if (arrived_ % kBucketPositions == 0) Advance();
  }
}

void WindowShuffleStage::OnRefs(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) {
    Insert(ref);
    ++arrived_;
    if (arrived_ % kBucketPositions == 0) Advance();
  }
}

void WindowShuffleStage::Advance() {
  // A record still to come has a key of at least arrived_.
  while ((first_bucket_ + 1) * kBucketPositions <= arrived_) EmitBucket();
}

void WindowShuffleStage::EmitBucket() {
  std::vector<Held>& bucket = ring_[first_bucket_ % ring_.size()];
  ++first_bucket_;
  if (bucket.empty()) return;
  // A counting sort by position within the bucket, then the few of one position by fraction:
  // arrival order is kept among equals, so ties fall to the smaller i.
  std::array<std::uint32_t, kBucketPositions + 1> starts{};
  for (const Held& held : bucket) ++starts[(held.key >> 32) + 1];
  for (std::size_t i = 1; i <= kBucketPositions; ++i) starts[i] += starts[i - 1];
  sorted_.resize(bucket.size());
  auto cursor = starts;
  for (const Held& held : bucket) sorted_[cursor[held.key >> 32]++] = held;
  for (std::size_t i = 1; i < sorted_.size(); ++i) {
    const Held held = sorted_[i];
    std::size_t at = i;
    for (; at > 0 && sorted_[at - 1].key > held.key; --at) sorted_[at] = sorted_[at - 1];
    sorted_[at] = held;
  }
  out_.clear();
  for (const Held& held : sorted_) out_.push_back(held.ref);
  bucket.clear();
  next_->OnRefs(out_);
}

void WindowShuffleStage::Flush() {
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
