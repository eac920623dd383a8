#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "readers/engine/blocks/block.h"
#include "readers/engine/waiting/read_ahead.h"
#include "readers/engine/waiting/worker_pool.h"
#include "ringfeed/queue/mpmc_ring.h"

namespace ringfeed {

/// Blocks that lanes have framed and the plan has not taken: a queue for each lane. The lane's
/// worker publishes, the planner takes; SizeOf may be called by any thread. None waits.
class ReadyBlocks {
 public:
  ReadyBlocks(Workers* workers, ReadAhead* lanes) : workers_(workers), lanes_(lanes) {}

  /// Before the run starts: one more lane, whose blocks have so many credits together.
  void AddLane(std::size_t credits) { queues_.emplace_back(credits + 2); }

  void Publish(Block* block) {
    (void)queues_[block->lane].TryPush(std::move(block));  // credits leave room for every block
  }
  /// The next block of the lane whose turn it is. If there is none its worker is woken, once.
  bool TakeDue(std::size_t lane, Block** block) {
    lanes_->SetDue(lane);
    if (Take(lane, block)) return true;
    lanes_->MissDue([this](std::size_t worker) {
      if (!workers_->IsCurrent(worker)) workers_->Wake(worker);
    });
    return false;
  }
  /// The next block of the lane, if lanes have no turns.
  bool Take(std::size_t lane, Block** block) {
    return queues_[lane].TryPop(*block) == QueueResult::kOk;
  }

  std::size_t lanes() const { return queues_.size(); }
  std::size_t SizeOf(std::size_t lane) const { return queues_[lane].SizeApprox(); }

 private:
  Workers* const workers_;
  ReadAhead* const lanes_;
  std::deque<MpmcRing<Block*>> queues_;
};

}  // namespace ringfeed
