#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "readers/engine/stages/plan_stage.h"
#include "readers/order/plan_clock.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

/// Asks for the group of each record of a block that is not damaged. A record for which `group_of`
/// throws is the block's failure, behind the records before it.
void GroupRows(const GroupFunction& group_of, Block* block);

/// Puts rows of one group into a batch. Holds the rows of groups that are not full back, by
/// reference, up to the end of a segment of so many ordinals: there those that were started go on
/// as short batches, the one whose first row came first before the others, and the next segment
/// starts with nothing. Damaged rows count as ordinals, and are left out here. A keeper of the
/// clock: marks are counted from the beginning of a segment.
class GroupBatchStage final : public PlanStage {
 public:
  GroupBatchStage(std::size_t batch_rows, std::uint64_t segment_rows, PlanClock* clock);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  struct Group {
    std::uint64_t started = 0;  ///< ordinal of rows.front()
    std::vector<RowRef> rows;
  };

  /// Takes over where the rows of this call stand, from a keeper in front.
  void BeginCall();
  void Add(RowRef row);
  void NextOrdinal();
  void EndSegment();

  const std::size_t batch_rows_;
  const std::uint64_t segment_rows_;
  PlanClock* const clock_;
  const bool places_are_told_;  ///< by a keeper in front of this one
  std::uint64_t pass_ = 0;
  std::uint64_t place_ = 0;    ///< of the next row
  std::uint64_t ordinal_ = 0;  ///< in the segment
  std::unordered_map<std::int64_t, Group> groups_;
  std::vector<Group*> begun_;
};

}  // namespace ringfeed
