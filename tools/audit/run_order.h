#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/audit/journal_section.h"

namespace ringfeed::tools {

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
