#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/memory/arena.h"
#include "readers/engine/blocks/block.h"
#include "readers/engine/blocks/block_pool.h"
#include "readers/engine/waiting/keep_limit.h"
#include "readers/engine/waiting/memory_budget.h"
#include "readers/engine/waiting/plan_requests.h"
#include "readers/engine/waiting/read_ahead.h"
#include "readers/engine/waiting/worker_pool.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The memory of a run: its blocks, how long each is held, and what blocks and batches may take
/// together. What comes back wakes the thread that may wait for it.
///
/// Thread safety: the planner calls MayHold, NotePlanned, GrantBatches and GrowKept; any thread may
/// call the others. None waits.
class RunMemory {
 public:
  struct Options {
    std::shared_ptr<Arena> arena;        ///< of batches
    std::shared_ptr<Arena> block_arena;  ///< of what is read; the same, or a device's
    std::size_t asked_bytes = 0;         ///< as MemoryBudget
    std::string name;                    ///< as MemoryBudget
    /// The order holds blocks back: then their lane gets its credits back as they are planned, and
    /// the budget bounds what is held.
    bool holds_blocks = false;
    /// Batches may keep blocks, and at least so many bytes of them; 0: they keep none.
    std::size_t kept_bytes = 0;
    /// Not null: the limit of blocks in a device's memory, in place of the budget's.
    KeepLimit* device_limit = nullptr;
  };
  RunMemory(const Options& options, Workers* workers, ReadAhead* lanes, PlanRequests* plan);

  // ---- Blocks ----

  Block* Take() { return blocks_.Take(); }
  /// Before the run starts: a lane's credit pays for so many bytes of slabs.
  void set_credit_bytes(std::size_t bytes) { credit_bytes_ = bytes; }
  /// What a block that was filled takes of its lane; 1 at least.
  std::int32_t CreditsFor(const Block& block) const {
    const std::size_t credits = (block.slab_bytes() + credit_bytes_ - 1) / credit_bytes_;
    return std::max(1, static_cast<std::int32_t>(credits));
  }
  /// Drops so many holds on the block. With the last one it is recycled, or kept on by batches.
  void Drop(Block* block, std::uint32_t rows) {
    if (block->holds.fetch_sub(rows, std::memory_order_acq_rel) == rows) Recycle(block);
  }
  /// Keeps the block's memory after its last hold, until LetGo, if there is memory for that. The
  /// caller has a hold on it.
  bool Keep(Block* block);
  void LetGo(Block* block) { DropKeep(block, 1); }

  // ---- The plan ----

  /// Whether the plan may hold the block back for as long as its rows are. If not, the plan is
  /// asked for again when there may be more; or `never` says why there will not, if not
  /// is_outstanding(): no memory comes back by itself.
  template <typename IsOutstanding>
  bool MayHold(const Block& block, IsOutstanding&& is_outstanding, Status* never) {
    if (!options_.holds_blocks || block.runs.empty()) return true;
    const bool comes_back = is_outstanding();  // first: what comes back meanwhile is then there
    if (budget_.MayHold(block.slab_bytes())) return true;
    if (!comes_back) *never = budget_.WhyNot();  // else Recycle asks again
    return false;
  }
  /// The block was taken, and is planned.
  void NotePlanned(const Block& block);
  /// Sets memory aside for batches; gives how much of it there is.
  std::size_t GrantBatches(std::size_t bytes);
  /// Before the plan goes on: sets more aside for blocks that batches keep, if some was refused.
  void GrowKept() {
    if (options_.kept_bytes > 0) budget_.GrowKept();
  }
  /// A batch is done with the writers: what it took may be what the plan waits for.
  void NoteBatchDone() {
    if (options_.holds_blocks) plan_->Ask();
  }

  // ---- Consumers ----

  /// A consumer takes a delivery of records in their blocks. False if the run let go of them.
  bool ClaimRecords();
  void NoteRecordsBack();
  /// The run is over: gives its part of the arena back, and the blocks once no consumer has any.
  /// The next run may plan with the rest.
  void LetGoOfAll();

  MemoryBudget& budget() { return budget_; }
  const MemoryBudget& budget() const { return budget_; }
  const std::shared_ptr<Arena>& block_arena() const { return options_.block_arena; }

 private:
  static constexpr std::uint64_t kLetGo = std::uint64_t{1} << 63;

  void Recycle(Block* block);
  /// Drops one reason to keep the block's memory, Block::kHeld or 1; after the last it goes.
  void DropKeep(Block* block, std::uint32_t keep);
  bool KeepBytes(std::size_t bytes);
  void LetGoOfBytes(std::size_t bytes);
  void GiveCredits(std::size_t lane, std::int32_t credits, std::size_t bytes);

  const Options options_;
  Workers* const workers_;
  ReadAhead* const lanes_;
  PlanRequests* const plan_;
  std::size_t credit_bytes_ = 1;
  MemoryBudget budget_;
  BlockPool blocks_;
  /// Deliveries of records that consumers have, and kLetGo after the rest was let go of. The thread
  /// that leaves kLetGo alone lets go of the blocks. Changed by read-modify-writes.
  std::atomic<std::uint64_t> held_records_{0};
};

}  // namespace ringfeed
