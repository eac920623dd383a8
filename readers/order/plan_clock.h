#pragma once

#include <cstdint>

namespace ringfeed {

/// From where a chain goes on as if it had never stopped: it starts at place `place` of pass `pass`
/// of its order, with nothing held back, and leaves out its first `outputs` batches.
struct PlanPosition {
  std::uint64_t pass = 0;
  std::uint64_t place = 0;
  std::uint64_t outputs = 0;
  friend bool operator==(const PlanPosition&, const PlanPosition&) = default;
};

/// Where a delivery stands in the order.
struct OrderSpan {
  /// Of a batch: how many were planned before it since the run's start, those that are left out or
  /// hold no row among them.
  std::uint64_t number = 0;
  /// How many places reached the sink before its first row since the run's start.
  std::uint64_t first_place = 0;
  PlanPosition
      begin;  ///< before its first row; of outputs that are marked by segments: the segment
  /// Behind it; of a batch that a failure cut short, behind the batch before the first such one.
  PlanPosition end;
  PlanPosition before;  ///< of a batch: behind the one before it, where that was not cut short
  /// Of a batch that a failure cut short: how many batches, this one among them, positions behind
  /// it do not count, so that they come again; else 0.
  std::uint64_t uncounted = 0;
};

/// Where the plan stands. A place is a row, or a damaged record in a row's stead. Without a stage
/// whose output depends on what is in the records, places are the sink's rows, and it counts them
/// itself. A stage that drops, holds back or groups rows by their contents is the clock's keeper:
/// it says where the next marks are. The planner's alone.
class PlanClock {
 public:
  explicit PlanClock(std::uint64_t pass = 0, std::uint64_t place = 0) : here_{pass, place, 0} {}

  /// A keeper that holds nothing back: the rows that it hands on next stand at consecutive places,
  /// the first at this one. At the end of a pass it says AtPlace(pass + 1, 0) before it hands that
  /// on.
  void AtPlace(std::uint64_t pass, std::uint64_t place) { here_ = {pass, place, 0}; }
  /// A keeper of segments: everything before this place went out; marks count the outputs behind
  /// it.
  void AtSegment(std::uint64_t pass, std::uint64_t place) {
    segment_ = {pass, place, 0};
    segmented_ = true;
  }
  /// The place of the next row: at the beginning of a call, of its first row. A keeper of segments
  /// behind another keeper learns its rows' places so.
  PlanPosition here() const { return here_; }

  /// The sink's: so many places are planned. Behind a keeper of segments rows stand anywhere.
  void Advance(std::uint64_t places) {
    if (!segmented_) here_.place += places;
  }
  /// The sink's, where nobody keeps the clock: a pass is over.
  void EndPass() { here_ = {here_.pass + 1, 0, 0}; }
  /// The sink's: the mark behind a batch that is `rows` places further than it said by Advance.
  PlanPosition AfterBatch(std::uint64_t rows = 0) {
    if (!segmented_) return {here_.pass, here_.place + rows, 0};
    ++segment_.outputs;
    return segment_;
  }
  /// The sink's: the mark before a batch.
  PlanPosition BeforeBatch() const { return segmented_ ? segment_ : here_; }

  bool kept() const { return kept_; }
  /// A stage says that it keeps the clock; at set-up.
  void Keep() { kept_ = true; }

 private:
  PlanPosition here_;
  PlanPosition segment_;
  bool segmented_ = false;
  bool kept_ = false;
};

}  // namespace ringfeed
