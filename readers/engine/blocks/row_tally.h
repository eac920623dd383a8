#pragma once

#include <cstdint>

namespace ringfeed {

/// Counts of the rows that came to the end of a run's plan. Only the planner uses it.
struct RowTally {
  std::uint64_t delivered = 0;  ///< or are on their way
  std::uint64_t unplaced = 0;   ///< have no place: dropped by Filter, of no group, empty in Pack
  std::uint64_t damaged = 0;    ///< places without a record
  std::uint64_t dropped = 0;    ///< the rest of a pass that Batch was told to drop
  std::uint64_t left_out = 0;   ///< rows before the place at which the run starts
  std::uint64_t of_others = 0;  ///< other ranks write them
  std::uint64_t delivered_bytes = 0;  ///< of the records of delivered, if they are counted
  /// Bytes counted with their blocks for records that are not delivered here.
  std::uint64_t lost_bytes = 0;
  std::uint64_t passes = 0;  ///< so many ends of passes came through

  std::uint64_t rows() const {
    return delivered + unplaced + damaged + dropped + left_out + of_others;
  }
  bool operator==(const RowTally&) const = default;
};

/// What came to the end of the plan before a batch, or before the end of all.
struct PlannedSums {
  std::uint64_t rows = 0;     ///< good ones, with those that are dropped
  std::uint64_t bytes = 0;    ///< of their records
  std::uint64_t dropped = 0;  ///< rows
};

}  // namespace ringfeed
