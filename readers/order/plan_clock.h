#pragma once

#include <cstdint>
#include <optional>

namespace ringfeed {

/// A chain goes on from here as if it had never stopped: it starts at place `place` of pass `pass`
/// of its order, with nothing held back, and leaves out its first `outputs` batches. If shares make
/// its batches (ShareRules), or packed rows that run over segments, `outputs` are these, and after
/// them it leaves out `done` steps.
struct PlanPosition {
  std::uint64_t pass = 0;
  std::uint64_t place = 0;
  std::uint64_t outputs = 0;
  /// Steps that are left out after `outputs`. In a position: not 0 only if shares are exchanged
  /// among several steps. (Of packed rows without a plan a run has it as RunStart::leave_out.)
  std::uint64_t done = 0;
  friend bool operator==(const PlanPosition&, const PlanPosition&) = default;
};

/// What is planned of a step, of all ranks together.
struct StepFacts {
  PlanPosition end;                 ///< after it
  std::uint64_t units = 0;          ///< of its records, without what fills them up
  std::uint64_t records = 0;        ///< without repeated ones
  std::uint64_t padding_units = 0;  ///< of its packed rows: places without a record's unit
  /// The largest load of a rank over the mean of all ranks, by the rules' cost and the ranks'
  /// weights; 0 if the step costs nothing.
  double imbalance = 0;
};

/// Records of which planned batches made nothing, on all ranks together.
struct LeftOutRecords {
  std::uint64_t empty = 0;    ///< without a unit
  std::uint64_t dropped = 0;  ///< with the rest of a pass
};

/// The place of a delivery in the order.
struct OrderSpan {
  /// Of a batch: how many were planned before it since the run's start, with those that are left
  /// out or hold no row.
  std::uint64_t number = 0;
  /// How many places reached the sink before its first row since the run's start.
  std::uint64_t first_place = 0;
  PlanPosition
      begin;  ///< before its first row; of outputs that are marked by segments: the segment
  /// After it; of a batch that a failure cut short, after the batch before the first such one.
  PlanPosition end;
  PlanPosition before;  ///< of a batch: after the one before it, if that was not cut short
  /// Of a batch that a failure cut short: how many batches, with this one, later positions do not
  /// count, so that they come again; else 0.
  std::uint64_t uncounted = 0;
  /// Pieces of its step that were before it; 0 if a step is one batch.
  std::uint64_t pieces = 0;
  /// It is a piece of a step, and not the last one: `end` is before the step, and `uncounted`
  /// counts its pieces, since a position between them would hold for this number of ranks alone.
  bool inside_step = false;
  StepFacts step;  ///< that it is of; zeros without steps
};

/// The place of the plan. A place is a row, or a damaged record in a row's stead. If no stage's
/// output depends on the records, places are the sink's rows, and it counts them itself. A stage
/// that drops, holds back or groups rows by their contents keeps the clock: it says the places of
/// the next marks. Only the planner uses it.
///
/// If shares make the batches, marks are between steps. A batch may be a piece of a step: the mark
/// after it is the one before the step, unless it is the last piece.
class PlanClock {
 public:
  explicit PlanClock(std::uint64_t pass = 0, std::uint64_t place = 0) : here_{pass, place, 0} {}

  /// A keeper that holds nothing back: the rows that it hands on next have consecutive places, the
  /// first one this. At the end of a pass it calls AtPlace(pass + 1, 0) before it hands that on.
  void AtPlace(std::uint64_t pass, std::uint64_t place) { here_ = {pass, place, 0}; }
  /// A keeper of segments: everything before this place went out; marks count the outputs after it.
  void AtSegment(std::uint64_t pass, std::uint64_t place) {
    segment_ = {pass, place, 0};
    segmented_ = true;
    segment_end_.reset();
  }
  /// A keeper of segments calls it before it hands the last output of one on: after that output,
  /// everything before this place went out. AtSegment follows.
  void EndsSegmentAt(std::uint64_t pass, std::uint64_t place) { segment_end_ = {pass, place, 0}; }
  /// A keeper of steps: the next one begins here.
  void AtStep(const PlanPosition& begin) {
    segment_ = begin;
    segmented_ = true;
    segment_end_.reset();
    inside_step_ = true;
  }
  /// The same, before it hands the pieces of that step on.
  void BeginsStep(const StepFacts& step) { step_ = step; }
  /// The same, before it hands the last piece on.
  void EndsStep() {
    segment_end_ = step_.end;
    inside_step_ = false;
  }
  /// The sink's: the step of the next batch.
  const StepFacts& step() const { return step_; }
  /// The sink's: whether the next batch is a piece of a step, and not the last one.
  bool inside_step() const { return inside_step_; }
  /// The place of the next row: at the beginning of a call, of its first row. This tells a keeper
  /// of segments on top of another keeper the places of its rows.
  PlanPosition here() const { return here_; }

  /// The sink's: so many places are planned. After a keeper of segments rows may be at any place.
  void Advance(std::uint64_t places) {
    if (!segmented_) here_.place += places;
  }
  /// The sink's, if no stage keeps the clock: a pass is over.
  void EndPass() { here_ = {here_.pass + 1, 0, 0}; }
  /// The sink's: the mark after a batch that is `rows` places further than it said by Advance.
  PlanPosition AfterBatch(std::uint64_t rows = 0) {
    if (!segmented_) return {here_.pass, here_.place + rows, 0};
    if (inside_step_) return segment_;
    ++segment_.outputs;
    return segment_end_.value_or(segment_);
  }
  /// The sink's: the mark before a batch.
  PlanPosition BeforeBatch() const { return segmented_ ? segment_ : here_; }

  bool kept() const { return kept_; }
  /// A stage says that it keeps the clock; at set-up.
  void Keep() { kept_ = true; }

 private:
  PlanPosition here_;
  PlanPosition segment_;
  std::optional<PlanPosition> segment_end_;  ///< known in front of its last output
  StepFacts step_;
  bool segmented_ = false;
  bool inside_step_ = false;
  bool kept_ = false;
};

}  // namespace ringfeed
