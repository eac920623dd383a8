#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/blocks/block.h"
#include "readers/formats/format.h"

namespace ringfeed {

/// Memory of the arena for what a framer decompresses into a block: small pieces share a run.
class BlockMemory final : public FrameMemory {
 public:
  explicit BlockMemory(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  ~BlockMemory() override;
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  std::byte* Allocate(std::size_t bytes) override;
  /// Whether there was no more.
  bool exhausted() const { return exhausted_; }
  /// The block owns what was allocated since the last call; what is left of the last run goes back.
  void GiveTo(Block* block);

 private:
  void CloseRun();

  const std::shared_ptr<Arena> arena_;
  SlabRun run_;           ///< pieces are cut off it
  std::size_t used_ = 0;  ///< of run_
  std::vector<SlabRun> full_;
  bool exhausted_ = false;
};

}  // namespace ringfeed
