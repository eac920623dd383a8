#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/engine/stages/plan_stage.h"

namespace ringfeed {

/// The block shuffle of Paddle's shuffle reader: fill N ordinals, permute, drain; the last, short
/// block of a pass too. Block b of an epoch is permuted by Fisher and Yates' method: for j = n-1 …
/// 1 the rows j and floor(draw * (j + 1) / 2^32) change places, where the draw for j is draw(seed,
/// epoch, b * N + j). A damaged row takes part like any other, so that the places of all others do
/// not depend on it.
class BlockShuffleStage final : public PlanStage {
 public:
  /// Pass p of this stage is epoch first_epoch + p.
  BlockShuffleStage(std::uint64_t block_rows, std::uint64_t seed, std::uint32_t first_epoch = 0);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  void Add(RowRef ref);
  void Drain();

  const std::uint64_t block_rows_;
  const std::uint64_t seed_;
  std::uint32_t epoch_;
  std::uint64_t blocks_ = 0;  ///< drained in this epoch
  std::vector<RowRef> held_;
};

}  // namespace ringfeed
