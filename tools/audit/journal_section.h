#pragma once

#include <cstddef>
#include <cstdint>

#include "ringfeed/journal.h"

namespace ringfeed::tools {

/// One rank's part in one run: a start entry and the entries after it.
struct JournalSection {
  JournalStart start;
  std::size_t journal = 0;        ///< index of its file
  std::uint64_t next_batch = 0;   ///< after its last whole batch, else start.batch
  std::uint64_t next_seen = 0;    ///< the same, counting batches that a failure cut short
  std::uint64_t last_pass = 0;    ///< of its last delivery
  bool ended = false;             ///< it came to the end of the data
  std::uint64_t end_batches = 0;  ///< then: its count of all batches
  std::uint64_t damaged = 0;      ///< damaged records and ranges that it reported in all
  /// Deliveries of batches from here on were rolled back: a later run started there.
  std::uint64_t rolled_back_from = ~std::uint64_t{0};
};

}  // namespace ringfeed::tools
