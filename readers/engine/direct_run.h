#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/memory/arena.h"
#include "io/direct_reads.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/waiting/keep_limit.h"

namespace ringfeed {

/// Why the records of a plan cannot be read into a device's memory, which only the device can read;
/// empty if they can. `indexed`: null if records are read as files come.
std::string WhyNotDirect(const ExecutionPlan& plan, const IndexedSource* indexed);

/// The device memory of a run whose reads go there, and how much of it batches keep. Any thread may
/// use the limit; the constructor runs before the run's threads.
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

  /// Of blocks that batches keep: they are never given what lanes need. Null as reads().
  KeepLimit* keep_limit() { return memory_ != nullptr ? &keep_limit_ : nullptr; }

 private:
  void Begin(const ExecutionPlan& plan, const IndexedSource* indexed, const Reading& reading);

  std::shared_ptr<DirectReads> reads_;
  std::shared_ptr<Arena> memory_;
  KeepLimit keep_limit_;
};

}  // namespace ringfeed
