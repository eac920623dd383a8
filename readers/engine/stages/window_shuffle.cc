#include "readers/engine/stages/window_shuffle.h"

#include <utility>

namespace ringfeed {

WindowShuffleStage::WindowShuffleStage(std::uint64_t window, std::uint64_t seed,
                                       std::uint32_t first_epoch)
    : seed_(seed),
      epoch_(first_epoch),
      draws_(seed, first_epoch, DrawPurpose::kWindowShuffle),
      buckets_(window) {}

void WindowShuffleStage::Place(Block* block, std::uint32_t row) {
  const auto target = buckets_.At(draws_.At(buckets_.arrived()));
  const std::uint32_t place = block->index * WindowBuckets<Held>::kBucketPositions + target.within;
  buckets_.Put(target, {target.fraction, row, place});
}

void WindowShuffleStage::NextArrival() {
  if (!buckets_.Arrive()) return;
  while (buckets_.due()) EmitBucket();
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

void WindowShuffleStage::EmitBucket() {
  if (buckets_.oldest() == 0) {
    buckets_.Drop();
    return;
  }
  out_.clear();
  for (const Held& held : buckets_.Take()) out_.push_back({blocks_[held.block()], held.row});
  next_->OnRefs(out_);
}

void WindowShuffleStage::Flush() {
  buckets_.Close();
  while (buckets_.holds()) EmitBucket();
  buckets_.Restart(0);
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
