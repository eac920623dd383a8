#include "readers/engine/stages/order_stages.h"

#include <cassert>
#include <utility>

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
  // A block that is not whole has another order.
  if (!status.ok() && !held_.empty()) next_->OnFailing();
  Drain();
  next_->OnEnd(status);
}

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
  for (const Held& held : buckets_.Take()) {
    Block* const block = blocks_[held.block()];
    __builtin_prefetch(block->frame.records.data() + held.row);
    out_.push_back({block, held.row});
  }
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
  // Rows that did not come would have mixed with those that are held.
  if (!status.ok() && buckets_.arrived() > 0) next_->OnFailing();
  Flush();
  next_->OnEnd(status);
}

void FailureStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  std::uint32_t row = begin;
  const Status* why = nullptr;
  while (expects_ && !ended_ && row < end && (why = block->FailureOf(row)) == nullptr) ++row;
  if (!expects_) row = end;
  if (begin < row) next_->OnRows(block, begin, row);
  if (row == end) return;
  if (why != nullptr) FailAt(*block, *why);
  next_->OnLost(block, end - row, 0);
}

void FailureStage::OnRefs(std::span<const RowRef> rows) {
  std::size_t row = 0;
  const Status* why = nullptr;
  const auto fails = [&](const RowRef& ref) {
    why = ref.hole() ? ref.block->FailureOf(ref.row) : nullptr;
    return why != nullptr;
  };
  while (expects_ && !ended_ && row < rows.size() && !fails(rows[row])) ++row;
  if (!expects_) row = rows.size();
  if (row > 0) next_->OnRefs(rows.first(row));
  if (row == rows.size()) return;
  if (why != nullptr) FailAt(*rows[row].block, *why);
  for (const RowRef& ref : rows.subspan(row)) next_->OnLost(ref.block, 1, 0);
}

void FailureStage::Stop(const Status& status) {
  expects_ = true;
  OnEnd(status);
}

void FailureStage::FailAt(const Block& block, const Status& why) {
  failed_pass_.store(block.pass, std::memory_order_relaxed);
  End(Status(why));
}

void FailureStage::End(const Status& status) {
  ended_ = true;
  next_->OnEnd(status);
}

void FailureStage::OnPassEnd() {
  if (!ended_) next_->OnPassEnd();
}

void FailureStage::OnEnd(const Status& status) {
  if (!ended_) End(status);
}

std::unique_ptr<PlanStage> MakeOrderStage(const OrderStage& stage, std::uint32_t first_epoch) {
  switch (stage.kind) {
    case OrderStage::Kind::kWindow:
      return std::make_unique<WindowShuffleStage>(stage.amount, stage.seed, first_epoch);
    case OrderStage::Kind::kBlock:
      return std::make_unique<BlockShuffleStage>(stage.amount, stage.seed, first_epoch);
    case OrderStage::Kind::kMultiPass:
      return std::make_unique<MultiPassStage>(stage.amount);
    case OrderStage::Kind::kStripes:
    case OrderStage::Kind::kGlobal:
      break;
  }
  assert(false && "a stage of the order by index");
  return nullptr;
}

}  // namespace ringfeed
