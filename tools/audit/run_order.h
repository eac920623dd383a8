#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

/// The runs of the sections, in their order.
struct RunOrder {
  /// Indices of sections; no two of a run are of one rank.
  std::vector<std::vector<std::size_t>> runs;
  /// Whether the files contradict each other or their hosts' clocks, so that the order may have
  /// been another. In words, the first few.
  std::vector<std::string> contradictions;
};

/// Sections are of one run if they start from the same batch with the same number of ranks and the
/// same launch, each with another rank. Runs are in the order of their lines in each file. Next, a
/// run that starts from a batch comes after one that got there. Clocks decide the rest: clocks of
/// several hosts may differ by any time. `sections` are in the order of the files, and in them of
/// their lines.
RunOrder OrderRuns(const std::vector<JournalSection>& sections,
                   const std::vector<std::string>& paths);

/// Whether two sections may belong to one run. Not by JournalStart::run: ranks that were restored
/// from positions of the same batch may count differently.
bool StartAlike(const JournalSection& one, const JournalSection& other);

}  // namespace ringfeed::tools
