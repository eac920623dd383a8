#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "readers/engine/batches/batch_sink.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/run_parts.h"
#include "readers/engine/sources/lane.h"
#include "readers/engine/sources/stripe_reader.h"
#include "readers/engine/waiting/taken_ahead.h"
#include "readers/order/chunk_plan.h"
#include "readers/order/plan_clock.h"

namespace ringfeed {

/// Completes the parts of a run before its threads start: its workers and lanes, their schedule or
/// chunks, the memory that it begins with, the plan and its sink.
class RunBuilder {
 public:
  explicit RunBuilder(RunParts* parts)
      : parts_(*parts), plan_(parts->plan), holds_credits_(!parts->plan.shuffled()) {}

  /// `whole`: the plan with the stages that the index has done. Throws Error if files, memory or
  /// streams cannot be had.
  void Build(const ExecutionPlan& whole);

 private:
  void AddWorker(bool writes);
  void AddOwnThreads(std::size_t lanes);
  void BuildLanes();
  std::size_t BuildSchedule();
  std::size_t BuildChunks();
  std::unique_ptr<Lane> MakeLane(std::size_t number, LaneContext* context);
  /// How much lanes with threads of their own may take ahead.
  TakenAhead::Limits AheadLimits() const;
  /// What a lane may have ahead of the plan, of so many lanes.
  void SetCredits(std::size_t lanes, std::size_t stripe_bytes);
  std::size_t ReadingBytes(std::size_t lanes) const;
  void ReserveMemory(std::size_t lanes);
  /// What each lane may read further ahead of objects of stores, of so many lanes.
  StoreAhead StoreAheadOf(std::size_t lanes) const;
  /// What each lane may read ahead by index.
  std::size_t AheadBytes() const;
  /// What a worker may frame before its turn in file order comes.
  std::size_t FramedAheadBytes() const;
  /// Tells the ledger and the mappings that the chain keeps. It outlives the run.
  FileNews News() const;
  /// Of a run of so many passes, those before its start too.
  FileRereads Rereads(std::uint64_t passes) const;
  /// Throws Error if a shuffle's tables would be larger than the arena.
  void CheckTables(const ExecutionPlan& whole) const;
  void BuildPlanner();
  /// `holds_rows`: stages in front of it do.
  std::unique_ptr<PlanSink> MakeSink(PlanClock* clock, bool holds_rows);
  /// Which rows of each batch are written here, if several ranks share them.
  void ShareBatches(BatchSink::Options* options) const;

  RunParts& parts_;
  const ExecutionPlan& plan_;
  const bool holds_credits_;      ///< a block's credit comes back when its memory does
  std::size_t lane_credits_ = 0;  ///< of each lane
  std::size_t part_credits_ = 1;  ///< credits that a part takes after it was read
  std::size_t credit_bytes_ = 1;  ///< slabs of one credit of a lane
  StoreAhead store_ahead_{};
};

}  // namespace ringfeed
