#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/memory/arena.h"
#include "io/direct_reads.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"

namespace ringfeed {

/// Why the records of a plan cannot be read into a device's memory, which only the device can read;
/// empty if they can. `indexed`: null if records are read as files come.
std::string WhyNotDirect(const ExecutionPlan& plan, const IndexedSource* indexed);

/// The device memory of a run whose reads go there, and how much of it batches keep. Any thread may
/// call Keep and LetGo; the constructor runs before the run's threads.
class DirectRun {
 public:
  /// What lanes have read and not written yet, and what else is in flight.
  struct Reading {
    std::size_t lanes = 0;
    std::size_t lane_bytes = 0;  ///< of one, at most
  };

  /// Asks the plan's DirectReads for memory. Nothing is read directly if it has none, or the
  /// plan cannot: then memory() is null.
  DirectRun(const ExecutionPlan& plan, const IndexedSource* indexed, const Reading& reading);
  DirectRun(const DirectRun&) = delete;
  DirectRun& operator=(const DirectRun&) = delete;

  const std::shared_ptr<Arena>& memory() const { return memory_; }
  /// Null if nothing is read directly.
  const std::shared_ptr<DirectReads>& reads() const { return reads_; }
  explicit operator bool() const { return memory_ != nullptr; }

  /// Whether batches may keep so many more bytes of blocks; if so, they keep them until LetGo. The
  /// memory that lanes need is never given to them.
  bool Keep(std::size_t bytes);
  void LetGo(std::size_t bytes) { kept_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  void Begin(const ExecutionPlan& plan, const IndexedSource* indexed, const Reading& reading);

  std::shared_ptr<DirectReads> reads_;
  std::shared_ptr<Arena> memory_;
  std::size_t most_kept_ = 0;
  std::atomic<std::size_t> kept_{0};  // a count: blocks' own counters order what is in them
};

}  // namespace ringfeed
