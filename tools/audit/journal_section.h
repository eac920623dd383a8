#pragma once

#include <cstddef>
#include <cstdint>

#include "ringfeed/journal.h"

namespace ringfeed::tools {

/// What one rank did in one run: a start entry and what follows it.
struct JournalSection {
  JournalStart start;
  std::size_t journal = 0;        ///< index of its file
  std::uint64_t next_batch = 0;   ///< behind its last whole batch; start.batch where there is none
  std::uint64_t next_seen = 0;    ///< the same, batches that a failure cut short counted
  std::uint64_t last_pass = 0;    ///< of its last delivery
  bool ended = false;             ///< it came to the end of the data
  std::uint64_t end_batches = 0;  ///< then: as it counts all batches
  std::uint64_t damaged = 0;      ///< damaged records and ranges that it reported in all
  /// Deliveries of batches from here on were rolled back: a later run started from there.
  std::uint64_t rolled_back_from = ~std::uint64_t{0};
};

}  // namespace ringfeed::tools
