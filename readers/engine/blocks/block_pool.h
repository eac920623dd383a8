#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/blocks/block.h"
#include "ringfeed/queue/mpmc_ring.h"

namespace ringfeed {

/// The blocks of a run: made when none is free, used again, never given up. Owns them and, through
/// them, their slabs. Any thread, but for the destructor; nothing waits.
class BlockPool {
 public:
  /// Block::index is below this: WindowShuffleStage keeps it in 26 bits.
  static constexpr std::size_t kMostBlocks = std::size_t{1} << 26;

  explicit BlockPool(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  /// Frees the slabs of all blocks, also of those that are out.
  ~BlockPool();

  /// An empty block. Throws Error if kMostBlocks are out.
  Block* Take();
  /// Frees the slabs of all blocks and all that they hold, even of those that are out: they are not
  /// used any more. Those that batches keep go with these.
  void LetGo();
  /// Frees the block's slabs and all that it holds. Its memory for records stays for its next use.
  void GiveBack(Block* block);

 private:
  static constexpr std::size_t kFreeBlocks = 4096;

  static void Empty(Block* block);

  const std::shared_ptr<Arena> arena_;
  MpmcRing<Block*> free_{kFreeBlocks};
  std::mutex mutex_;  ///< guards what follows
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> spare_;  ///< free ones for which free_ has no room
};

}  // namespace ringfeed
