// Shares and steps of a chain whose batches depend on its records' units: packed rows, token
// batches, rows of buckets. A pure function of the order, the units and the rules, which each rank
// computes for itself. docs/ORDER.md has the formulas and defines the words.
//
// One owner: the ChunkPlan of a run, or a tool that shows the plan. Nothing is read but the
// lengths.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "readers/order/length_table.h"
#include "readers/order/packing.h"
#include "readers/order/plan_clock.h"
#include "readers/order/row_cursor.h"
#include "ringfeed/ranks.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The cost of a record of u units is linear * u + square * u^2; of a share, the sum.
struct ShareCost {
  std::uint64_t linear = 1;
  std::uint64_t square = 0;
  std::uint64_t Of(std::uint64_t units) const { return linear * units + square * units * units; }
};

/// What makes the shares of a segment, and the steps of these.
struct ShareRules {
  enum class Kind : std::uint8_t { kRows, kPacked, kTokens, kBuckets };
  using Rest = ringfeed::Rest;

  /// Places of a segment, if nobody says another number: their numbers take 16 bits.
  static constexpr std::uint64_t kUsualSegment = 65535;

  Kind kind = Kind::kRows;
  std::uint64_t step = 1;  ///< shares of a step
  std::uint64_t segment =
      1;  ///< places of a segment, less than 2^32; of kBuckets a multiple of step
  std::uint64_t seed = 0;
  std::uint32_t first_epoch = 0;
  /// Of kPacked and kTokens: the longest first, and the shares of a segment permuted.
  bool best_fit = false;
  std::uint32_t multiple = 1;      ///< units count as the next multiple of so many
  std::uint32_t length = 0;        ///< of a packed row; longer records are cut
  std::uint32_t most_records = 0;  ///< of a row packed by best fit; 0: any number
  std::uint64_t tokens = 0;        ///< of a token batch
  std::uint64_t most_rows = 0;     ///< of a token batch; 0: any number
  bool padded = false;  ///< a token batch counts its rows times its longest; with best_fit alone
  std::vector<std::uint64_t> bounds{};  ///< of kBuckets, ascending
  Rest rest = Rest::kShort;             ///< what becomes of the shares of a pass that fill no step
  ShareCost cost{};
  std::uint64_t alike = 1;  ///< among so many steps shares are exchanged, so that they cost alike

  bool draws() const { return best_fit || alike > 1; }
  /// Whether each step has all its shares.
  bool fills_up() const { return rest == Rest::kPad || rest == Rest::kRepeat; }
};

/// The shares of one segment.
class SegmentShares {
 public:
  std::size_t shares() const { return ends_.size(); }
  /// Places of a share's records, from the segment's first, in the share's order.
  std::span<const std::uint32_t> PlacesOf(std::size_t share) const {
    const std::uint32_t begin = share == 0 ? 0 : ends_[share - 1];
    return std::span(members_).subspan(begin, ends_[share] - begin);
  }
  RowNumber RowAt(std::uint32_t place) const { return rows_[place]; }
  /// As they are planned: 0 of a hole.
  std::uint32_t UnitsAt(std::uint32_t place) const { return units_[place]; }
  /// The same without what fills them up to ShareRules::multiple.
  std::uint32_t OwnUnitsAt(std::uint32_t place) const {
    return own_units_.empty() ? units_[place] : own_units_[place];
  }
  std::uint64_t CostOf(std::size_t share) const { return costs_[share]; }
  /// How many of its records have no unit, and are in no share for that.
  std::uint64_t empty_records() const { return empty_records_; }

 private:
  friend class SegmentPlanner;
  std::vector<RowNumber> rows_;           ///< by place
  std::vector<std::uint32_t> units_;      ///< by place
  std::vector<std::uint32_t> own_units_;  ///< by place; empty if they are the same
  std::vector<std::uint32_t> members_;    ///< share after share
  std::vector<std::uint32_t> ends_;       ///< of the shares, in members_
  std::vector<std::uint64_t> costs_;      ///< of the shares
  std::uint64_t empty_records_ = 0;
};

/// Makes the shares of segments. It keeps its memory between them.
class SegmentPlanner {
 public:
  explicit SegmentPlanner(const ShareRules& rules);
  /// Of the rows at the places of segment number `segment` of `pass`; lengths are of `lengths`.
  Status Plan(std::uint64_t pass, std::uint64_t segment, std::vector<RowNumber> rows,
              const LengthTable& lengths, std::shared_ptr<const SegmentShares>* shares);

 private:
  void CountUnits();
  void Pack();
  void CutByTokens();
  void FillBuckets();
  /// Puts the items into so many rows by row_of_, those of a row by place.
  void GatherRows(std::size_t rows);
  /// The order in which so many shares leave.
  void FindOrder(std::size_t shares);
  void Permute();
  /// Of shares whose places follow each other in their order.
  void AddCosts();

  const ShareRules rules_;
  std::optional<FirstFit> first_fit_;
  std::optional<BestFit> best_fit_;
  ByFallingUnits by_falling_units_;
  std::shared_ptr<SegmentShares> made_;
  std::vector<std::uint32_t> items_;   ///< places of the records that take part
  std::vector<std::uint32_t> row_of_;  ///< of each item, by its place
  std::uint32_t longest_ = 0;
  std::uint64_t pass_ = 0;
  std::uint64_t segment_ = 0;
  std::vector<std::uint64_t> order_;  ///< numbers of shares as they were begun, in their order
};

/// A share of a step.
struct PlannedShare {
  const SegmentShares* segment = nullptr;  ///< null: an empty one
  std::uint32_t number = 0;                ///< in the segment
  bool repeated = false;                   ///< it came before in this pass
};

/// A step: what all ranks together take. It holds the segments of its shares.
struct PlannedStep {
  std::uint64_t pass = 0;
  std::uint64_t data_pass = 0;  ///< of the data, at the place where the step's segment begins
  std::vector<PlannedShare> shares;
  PlanPosition end;  ///< after it; outputs are shares
  std::vector<std::shared_ptr<const SegmentShares>> segments{};
};

/// The steps from a position on. One thread at a time.
class SharePlan {
 public:
  struct Passes {
    std::uint64_t count = 1;   ///< number of the last one + 1; 0: without end
    bool other_files = false;  ///< they have different files: one without a step tells nothing
  };
  /// Called before a segment is dealt that begins at that place, with the step in which its first
  /// share lies. Whether the cursor's order changed after the place it was read up to.
  using OnSegment = std::function<bool(const OrderPlace& at, std::uint64_t step)>;
  SharePlan(const ShareRules& rules, const Passes& passes, std::unique_ptr<RowCursor> cursor,
            std::shared_ptr<const LengthTable> lengths, OnSegment on_segment = {});

  /// Goes to a position, of which `step` steps were before it in all passes.
  void Seek(const PlanPosition& at, std::uint64_t step);
  /// The next step; *ended if there is none. Fails if the order or the lengths do, and if a pass
  /// without end has not one step.
  Status Next(PlannedStep* step, bool* ended);
  /// So far.
  const LeftOutRecords& left_out() const { return left_out_; }

 private:
  /// The shares of `alike` steps, of fewer at the end of a pass.
  struct Block {
    std::vector<PlannedShare> shares;  ///< as they are delivered
    std::vector<std::shared_ptr<const SegmentShares>> segments;
    std::uint64_t steps = 0;
    PlanPosition begin;
    PlanPosition end;
  };
  struct Known {
    std::uint64_t pass = 0;
    std::uint64_t place = 0;
    std::shared_ptr<const SegmentShares> shares;
  };

  Status Segment(std::uint64_t pass, std::uint64_t place,
                 std::shared_ptr<const SegmentShares>* shares);
  /// Makes block_ of what begins at at_.
  Status Collect();
  Status TakeShares();
  void MakeAlike();
  Status FinishRest(std::uint64_t rest);
  Status Repeat(std::uint64_t missing);

  const ShareRules rules_;
  const Passes passes_;
  const std::unique_ptr<RowCursor> cursor_;
  const std::shared_ptr<const LengthTable> lengths_;
  const OnSegment on_segment_;
  SegmentPlanner planner_;
  std::deque<Known> known_;              ///< the segments that were planned last
  std::optional<OrderPlace> cursor_at_;  ///< where the cursor is, if that is known
  PlanPosition at_;                      ///< of the block
  std::uint64_t next_step_ = 0;          ///< number of the block's first step
  bool is_collected_ = false;            ///< block_ is the block at at_
  Block block_;
  std::uint64_t done_ = 0;  ///< its steps that were given, or that a position leaves out
  LeftOutRecords left_out_;
};

}  // namespace ringfeed
