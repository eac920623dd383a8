// Chunks of one rank's shares, step after step: the rows of packed rows, token batches and buckets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "readers/order/chunk_plan.h"
#include "readers/order/rank_shares.h"
#include "readers/order/share_plan.h"

namespace ringfeed {

/// Cuts a rank's part of each step into chunks.
class ShareChunks final : public ChunkMaker {
 public:
  struct Options {
    std::size_t rows_per_chunk = 1024;
    PlanPosition begin{};
    std::uint64_t first_step = 0;  ///< how many steps were before `begin`, in all passes
    std::uint64_t passes = 1;      ///< number of the last one + 1; 0: without end
    std::uint64_t rank = 0;
    RankSplit split{};
    std::uint64_t fill_to = 0;    ///< empty shares are added to a step that has fewer
    std::uint32_t row_units = 0;  ///< of a packed row; 0: shares are no packed rows
  };
  ShareChunks(std::unique_ptr<SharePlan> plan, const Options& options);
  void Make(Chunk* chunk) override;
  LeftOutRecords left_out() const override { return plan_->left_out(); }

 private:
  /// Plans the next step, and finds this rank's part of it. False at the end of all, or if that
  /// fails.
  bool NextStep(Chunk* chunk);
  void FindPart();
  void AddFacts(const PlannedShare& share);
  /// Appends rows of the part until the chunk is full.
  void TakeRows(Chunk* chunk);

  const std::unique_ptr<SharePlan> plan_;
  const Options options_;
  bool planned_ = false;  ///< step_ is one of which some is not given
  bool ended_ = false;
  PlannedStep step_;
  std::vector<std::uint32_t> part_;  ///< of the step's shares, this rank's in their order
  StepFacts facts_;                  ///< of the step
  bool begins_step_ = false;         ///< the next row is its first
  std::size_t next_share_ = 0;       ///< of part_
  std::size_t next_place_ = 0;       ///< of that share's records
  std::uint64_t pass_ = 0;           ///< whose chunks are made
  std::uint64_t pass_rows_ = 0;      ///< that were given
};

}  // namespace ringfeed
