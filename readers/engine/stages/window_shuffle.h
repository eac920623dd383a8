#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "readers/engine/blocks/block_pool.h"
#include "readers/engine/stages/plan_stage.h"
#include "readers/order/window_buckets.h"

namespace ringfeed {

/// The window shuffle: record i of a pass gets the key i + W * u, u = draw(seed, epoch, i) / 2^32,
/// and records leave in the order of their keys, equal keys in the order of i. There is no history:
/// a position is the last key delivered. WindowCursor gives the same order by numbers.
class WindowShuffleStage final : public PlanStage {
 public:
  /// Pass p of this stage is epoch first_epoch + p.
  WindowShuffleStage(std::uint64_t window, std::uint64_t seed, std::uint32_t first_epoch = 0);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  struct Held {
    std::uint32_t fraction;
    std::uint32_t row;
    std::uint32_t place;  ///< position in its bucket in the low 6 bits, block number above
    std::uint32_t within() const { return place % WindowBuckets<Held>::kBucketPositions; }
    std::uint32_t block() const { return place / WindowBuckets<Held>::kBucketPositions; }
  };

  static_assert(BlockPool::kMostBlocks * WindowBuckets<Held>::kBucketPositions == std::size_t{1}
                                                                                      << 32);

  void Place(Block* block, std::uint32_t row);
  void NextArrival();
  void EmitBucket();
  void Flush();

  const std::uint64_t seed_;
  std::uint32_t epoch_;
  DrawSequence draws_;
  WindowBuckets<Held> buckets_;
  std::vector<Block*> blocks_;  ///< by Block::index
  std::vector<RowRef> out_;
};

}  // namespace ringfeed
