#pragma once

#include <cstdint>

namespace ringfeed {

/// From where a chain goes on as if it had never stopped: it starts at place `place` of pass `pass`
/// of its order, with nothing held back, and leaves out its first `outputs` batches.
struct PlanMark {
  std::uint64_t pass = 0;
  std::uint64_t place = 0;
  std::uint64_t outputs = 0;
  friend bool operator==(const PlanMark&, const PlanMark&) = default;
};

/// Where the plan stands. A place is a row, or a damaged record in a row's stead. Without a stage
/// whose output depends on what is in the records, places are the sink's rows, and it counts them
/// itself. A stage that drops, holds back or groups rows by their contents is the clock's keeper:
/// it says where the next marks are. The planner's alone.
class PlanClock {
 public:
  explicit PlanClock(std::uint64_t pass = 0, std::uint64_t place = 0) : mark_{pass, place, 0} {}

  /// A keeper that holds nothing back: the rows of its next call stand at consecutive places, the
  /// first at this one.
  void AtPlace(std::uint64_t pass, std::uint64_t place) { mark_ = {pass, place, 0}; }
  /// A keeper of segments: everything before this place went out; marks count the outputs behind
  /// it.
  void AtSegment(std::uint64_t pass, std::uint64_t place) {
    mark_ = {pass, place, 0};
    segmented_ = true;
  }

  /// The sink's: the mark behind a batch whose last row is row number rows - 1 of the current call.
  PlanMark AfterBatch(std::uint64_t rows) {
    if (!segmented_) return {mark_.pass, mark_.place + rows, 0};
    ++mark_.outputs;
    return mark_;
  }

  bool kept() const { return kept_; }
  /// A stage says that it keeps the clock; at set-up.
  void Keep() { kept_ = true; }

 private:
  PlanMark mark_;
  bool segmented_ = false;
  bool kept_ = false;
};

}  // namespace ringfeed
