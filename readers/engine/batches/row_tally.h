#pragma once

#include <cstdint>

namespace ringfeed {

/// What became of the rows that came to the end of a run's plan. The planner's own.
struct RowTally {
  std::uint64_t delivered = 0;  ///< or are on their way
  std::uint64_t unplaced = 0;   ///< have no place: dropped by Filter, of no group, empty in Pack
  std::uint64_t damaged = 0;    ///< places without a record
  std::uint64_t dropped = 0;    ///< the rest of a pass that Batch was told to drop
  std::uint64_t left_out = 0;   ///< stand before the place that the run goes on from
  std::uint64_t of_others = 0;  ///< other ranks write them
  std::uint64_t passes = 0;     ///< so many ends of passes came through

  std::uint64_t rows() const {
    return delivered + unplaced + damaged + dropped + left_out + of_others;
  }
};

}  // namespace ringfeed
