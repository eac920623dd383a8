#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "readers/engine/stages/plan_stage.h"
#include "readers/order/packing.h"
#include "readers/order/plan_clock.h"
#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"
#include "ringfeed/sequences.h"

namespace ringfeed {

// The steps of a chain that look into records. `parser` is the one that locates them. Those that
// name a field throw Error if it has no such ragged field; TokenBatch by bytes takes none.

ContentStep FilterStep(FilterFunction keep);
ContentStep GroupStep(const GroupBatchOptions& options);
ContentStep BucketStep(const BucketBatchOptions& options, const Parser& parser);
ContentStep TokenStep(const TokenBatchOptions& options, const Parser* parser);
/// Of records that the parser of Pack located.
ContentStep PackStep(const PackOptions& options);

/// The places of the rows that a keeper of the clock gets. It counts them, or, after another
/// keeper, asks the clock before each call. Only the planner uses it.
class PlaceCounter {
 public:
  /// Keeps the clock.
  explicit PlaceCounter(PlanClock* clock)
      : clock_(clock), told_(clock->kept()), pass_(clock->here().pass), next_(clock->here().place) {
    clock_->Keep();
  }

  /// A call of so many rows begins.
  void BeginCall(std::uint64_t rows) {
    if (told_) {
      pass_ = clock_->here().pass;
      next_ = clock_->here().place;
    }
    first_ = next_;
    next_ += rows;
  }
  void EndPass() {
    ++pass_;
    first_ = next_ = 0;
  }

  std::uint64_t pass() const { return pass_; }
  /// Between calls: the place of what comes next.
  std::uint64_t next() const { return next_; }
  /// The place of row `row` of the call; if `row` is the call's number of rows, of what comes next.
  std::uint64_t At(std::uint64_t row) const { return first_ + row; }
  /// The rows handed on next begin with that row.
  void SetClock(std::uint64_t row) { clock_->AtPlace(pass_, At(row)); }

 private:
  PlanClock* const clock_;
  const bool told_;
  std::uint64_t pass_;
  std::uint64_t first_ = 0;
  std::uint64_t next_;
};

/// Marks the records of a block that are not kept. If `keep` throws for a record, that is the
/// block's failure, after the records before it.
void FilterRows(const FilterFunction& keep, Block* block);

/// Takes the marked rows out. Holds nothing back: kept rows go on in runs of consecutive places,
/// damaged ones among them.
class FilterStage final : public PlanStage {
 public:
  explicit FilterStage(PlanClock* clock) : places_(clock) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  PlaceCounter places_;
};

/// Holds rows back up to the end of a segment of so many places, where all of them go on: the next
/// segment starts with nothing. Damaged rows count as places. A keeper of the clock: marks count
/// from the beginning of a segment.
class SegmentStage : public PlanStage {
 public:
  SegmentStage(PlanClock* clock, std::uint64_t segment);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 protected:
  /// The next row, with the place after it. `is_last`: EndSegment follows.
  virtual void Add(RowRef ref, std::uint64_t end, bool is_last) = 0;
  /// All that is held goes on: the segment ends in front of that place.
  virtual void EndSegment(std::uint64_t place) = 0;
  /// The next segment begins at that place.
  virtual void BeginSegment(std::uint64_t pass, std::uint64_t place) {
    clock_->AtSegment(pass, place);
  }
  /// The pass is over, after EndSegment, and BeginSegment of the next pass.
  virtual void EndPass() { next_->OnPassEnd(); }
  /// What is handed on next is the last of the segment, which ends in front of that place.
  void BeginLast(std::uint64_t place) { clock_->EndsSegmentAt(places_.pass(), place); }
  /// So many rows of the segment came in.
  std::uint64_t rows() const { return rows_; }

  PlanClock* const clock_;

 private:
  void TakeRow(RowRef ref, std::uint64_t row);
  void StartAnew(std::uint64_t place);

  const std::uint64_t segment_;
  PlaceCounter places_;
  std::uint64_t rows_ = 0;
};

/// Asks for the group of each record of a block that is not damaged. If `group_of` throws for one,
/// that is the block's failure, after the records before it.
void GroupRows(const GroupFunction& group_of, Block* block);

/// Puts rows of one group into a batch. Holds back the rows of groups that are not full, by
/// reference. At the end of a segment the open groups go on as short batches, in the order of their
/// first rows. Damaged rows are left out here.
class GroupBatchStage final : public SegmentStage {
 public:
  GroupBatchStage(std::size_t batch_rows, std::uint64_t segment, PlanClock* clock)
      : SegmentStage(clock, segment), batch_rows_(batch_rows) {}

 private:
  struct Group {
    std::uint64_t started = 0;  ///< rows() with rows.front()
    std::vector<RowRef> rows;
  };

  void Add(RowRef ref, std::uint64_t end, bool is_last) override;
  void EndSegment(std::uint64_t place) override;

  const std::size_t batch_rows_;
  std::uint64_t held_rows_ = 0;
  std::unordered_map<std::int64_t, Group> groups_;
  std::vector<Group*> begun_;
};

/// What TokenBatch counts for a row that is not damaged.
using RowWeight = std::function<std::uint64_t(const Block& block, std::uint32_t row)>;

/// Cuts batches in front of the row with which they would weigh more than `limit`, or have more
/// than `most_rows` rows. Holds nothing back, so a batch begins at the end of the one before.
/// Damaged rows weigh nothing, and count as rows.
class TokenBatchStage final : public PlanStage {
 public:
  /// `most_rows`: at so many the sink ends a batch by itself.
  TokenBatchStage(PlanClock* clock, RowWeight weight, std::uint64_t limit, std::uint64_t most_rows);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  /// Counts the next row. True if a batch ends in front of it.
  bool EndsBefore(const Block& block, std::uint32_t row);

  const RowWeight weight_;
  const std::uint64_t limit_;
  const std::uint64_t most_rows_;
  PlaceCounter places_;
  std::uint64_t batch_weight_ = 0;
  std::uint64_t batch_rows_ = 0;
};

/// Packs the rows of a segment into rows of `length` units, first fit. Packed rows leave in the
/// order in which they were begun: at once if all before them are full, else at the end of the
/// segment. Batches run over the ends of segments, as planned ones do: marks count the packed rows
/// of a segment. Damaged rows and those without units are in no packed row. Puts the place of each
/// row (PackedPlace) into its block's locations.
class PackStage final : public SegmentStage {
 public:
  /// The parser of Pack located the rows, for rows of this length, of which so many are a batch.
  /// `left_out`: packed rows of the first segment that are before the start.
  PackStage(PlanClock* clock, std::uint32_t length, std::uint64_t segment, std::size_t batch_rows,
            std::uint64_t left_out);

 private:
  void Add(RowRef ref, std::uint64_t end, bool is_last) override;
  void EndSegment(std::uint64_t place) override;
  void BeginSegment(std::uint64_t pass, std::uint64_t place) override;
  void EndPass() override;
  /// Hands the next packed row on: after it the order is at that place.
  void Emit(const PlanPosition& end);
  /// The last row of a batch is handed on: after it the order is at that place.
  void EndBatchAt(const PlanPosition& end);

  const std::uint32_t length_;
  const std::size_t batch_rows_;
  FirstFit fit_;
  std::vector<std::vector<RowRef>> packed_;  ///< by their number in fit_; the others are kept empty
  std::size_t emitted_ = 0;
  PlanPosition segment_;       ///< where it begins
  std::uint64_t left_out_;     ///< packed rows of the segment that are before the start
  std::size_t open_rows_ = 0;  ///< of the batch that is open
};

}  // namespace ringfeed
