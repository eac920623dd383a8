#include "readers/engine/blocks/block_pool.h"

#include <string>
#include <utility>

#include "base/refusal.h"
#include "base/refuse.h"

namespace ringfeed {

BlockPool::~BlockPool() {
  for (const auto& block : blocks_) {
    for (const SlabRun& run : block->runs) arena_->Free(run);
  }
}

Block* BlockPool::Take() {
  Block* block = nullptr;
  if (free_.TryPop(block) == QueueResult::kOk) return block;
  const std::lock_guard lock(mutex_);
  if (!spare_.empty()) {
    block = spare_.back();
    spare_.pop_back();
    return block;
  }
  if (blocks_.size() >= kMostBlocks) {
    Refuse(StatusCode::kResourceExhausted,
           std::to_string(blocks_.size()) +
               " blocks of records are held at a time, more than a shuffle can tell "
               "apart; lower the window or the segment, or raise stripe_bytes");
  }
  // All of them may be spare at once: giving one back needs no memory.
  if (spare_.capacity() == blocks_.size()) spare_.reserve(64 + 2 * blocks_.size());
  blocks_.push_back(std::make_unique<Block>());
  blocks_.back()->index = static_cast<std::uint32_t>(blocks_.size() - 1);
  return blocks_.back().get();
}

void BlockPool::GiveBack(Block* block) {
  for (const SlabRun& run : block->runs) arena_->Free(run);
  Empty(block);
  // Release: pairs with the acquire in LetGo, which finds nothing in it to free.
  block->keeps.store(Block::kHeld, std::memory_order_release);
  if (free_.TryPush(std::move(block)) == QueueResult::kOk) return;
  const std::lock_guard lock(mutex_);
  spare_.push_back(block);
}

void BlockPool::LetGo() {
  const std::lock_guard lock(mutex_);
  for (const auto& block : blocks_) {
    // Order: as of keeps. A batch that keeps the block comes first, and this frees it, or later,
    // and frees it then.
    const std::uint32_t keeps = block->keeps.fetch_and(~Block::kHeld, std::memory_order_acq_rel);
    if (keeps != Block::kHeld) continue;
    for (const SlabRun& run : block->runs) arena_->Free(run);
    Empty(block.get());
  }
}

void BlockPool::Empty(Block* block) {
  block->runs.clear();
  block->far = nullptr;
  block->cold = false;
  block->refused.clear();
  block->frame.CutRecords(0);
  block->frame.damage.clear();
  block->frame.warnings.clear();
  block->frame.more_holes = 0;
  block->locations.clear();
  block->row_failures.clear();
  block->groups.clear();
  block->filtered.clear();
  block->storage.clear();
  block->instances.clear();
  block->files.clear();
  block->row_numbers.clear();
  block->planned.clear();
  block->steps.clear();
  block->scattered = false;
  block->table.reset();
  block->file_name.clear();
  block->framed.clear();
  block->status = Status();
  block->denied = false;
  block->turn_ends = true;
  block->pass_ends = block->stream_ends = false;
  block->of_dropped_rest = false;
  block->payload_bytes = block->filtered_bytes = block->taken_bytes = 0;
  block->good_rows = block->filtered_rows = block->truncated_rows = block->reopened = 0;
  block->credits = 1;
}

}  // namespace ringfeed
