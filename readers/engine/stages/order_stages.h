#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/philox.h"
#include "readers/engine/blocks/block_pool.h"
#include "readers/engine/stages/plan_stage.h"
#include "readers/order/row_layout.h"
#include "readers/order/window_buckets.h"

namespace ringfeed {

/// The block shuffle of Paddle's shuffle reader: fill N ordinals, permute, drain; the last, short
/// block of a pass too. Block b of an epoch is permuted by Fisher and Yates' method: for j = n-1 …
/// 1 the rows j and floor(draw * (j + 1) / 2^32) change places; the draw for j is draw(seed, epoch,
/// b * N + j). A damaged row takes part like any other, so that the places of all others do not
/// depend on it.
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

/// The window shuffle: record i of a pass gets the key i + W * u, u = draw(seed, epoch, i) / 2^32,
/// and records leave in the order of their keys, equal keys in the order of i. It has no history:
/// the last key delivered is a position. WindowCursor gives the same order by numbers.
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

/// Joins `passes` passes of its input into one: lets each passes-th end through; 0: none.
class MultiPassStage final : public PlanStage {
 public:
  explicit MultiPassStage(std::uint64_t passes) : passes_(passes) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override {
    next_->OnRows(block, begin, end);
  }
  void OnRefs(std::span<const RowRef> rows) override { next_->OnRefs(rows); }
  void OnPassEnd() override {
    if (passes_ != 0 && ++ended_ % passes_ == 0) next_->OnPassEnd();
  }
  void OnEnd(const Status& status) override { next_->OnEnd(status); }

 private:
  const std::uint64_t passes_;
  std::uint64_t ended_ = 0;
};

/// Ends the order at a row that failed (Block::row_failures). It comes after the stages that order
/// rows otherwise than the files have them. So what precedes that row in the order is delivered,
/// and nothing after it, in whatever file.
class FailureStage final : public PlanStage {
 public:
  /// Rows that failed are on their way: before this call it looks at nothing.
  void Expect() { expects_ = true; }
  /// A failure of no row, as when memory runs out: what is held back in front of this stage has no
  /// order without what would have followed, so nothing of it is delivered.
  void Stop(const Status& status);
  /// Whether such a row has come: nothing more is delivered.
  bool ended() const { return ended_; }
  /// The pass of that row; beyond all if there is none. Any thread.
  std::uint64_t failed_pass() const { return failed_pass_.load(std::memory_order_relaxed); }

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  void FailAt(const Block& block, const Status& why);
  void End(const Status& status);

  bool expects_ = false;
  bool ended_ = false;
  /// Set before the failure can be seen, which orders it.
  std::atomic<std::uint64_t> failed_pass_{~std::uint64_t{0}};
};

/// The stage of a step that is not by index.
std::unique_ptr<PlanStage> MakeOrderStage(const OrderStage& stage, std::uint32_t first_epoch);

}  // namespace ringfeed
