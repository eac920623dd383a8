#include "readers/engine/stages/block_shuffle.h"

#include <algorithm>
#include <utility>

#include "base/philox.h"

namespace ringfeed {

BlockShuffleStage::BlockShuffleStage(std::uint64_t block_rows, std::uint64_t seed,
                                     std::uint32_t first_epoch)
    : block_rows_(block_rows), seed_(seed), epoch_(first_epoch) {}

void BlockShuffleStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  for (std::uint32_t row = begin; row < end; ++row) Add({block, row});
}

void BlockShuffleStage::OnRefs(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) Add(ref);
}

void BlockShuffleStage::Add(RowRef ref) {
  held_.push_back(ref);
  if (held_.size() == block_rows_) Drain();
}

void BlockShuffleStage::Drain() {
  if (held_.empty()) return;
  DrawSequence draws(seed_, epoch_, DrawPurpose::kBlockShuffle);
  const std::uint64_t base = blocks_ * block_rows_;
  for (std::uint64_t j = held_.size() - 1; j > 0; --j) {
    const std::uint64_t other = (std::uint64_t{draws.At(base + j)} * (j + 1)) >> 32;
    std::swap(held_[j], held_[other]);
  }
  next_->OnRefs(held_);
  held_.clear();
  ++blocks_;
}

void BlockShuffleStage::OnPassEnd() {
  Drain();
  ++epoch_;
  blocks_ = 0;
  next_->OnPassEnd();
}

void BlockShuffleStage::OnEnd(const Status& status) {
  Drain();
  next_->OnEnd(status);
}

}  // namespace ringfeed
