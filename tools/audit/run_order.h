#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/audit/journal_section.h"

namespace ringfeed::tools {

/// The runs that sections are of, in the order in which they were.
struct RunOrder {
  /// Indices of sections; no two of a run are of one rank.
  std::vector<std::vector<std::size_t>> runs;
  /// Whether the files contradict each other or their hosts' clocks: then there may have been
  /// another order. In words, of the first few.
  std::vector<std::string> contradictions;
};

/// Sections are of one run if they start from the same batch with the same number of ranks and the
/// same launch, each with another rank. The order of runs is that of their lines in each file. Then
/// a run that starts from a batch comes after one that got there. Clocks decide about the rest:
/// those of several hosts may differ by any time. `sections` are in the order of the files, and in
/// them of their lines.
RunOrder OrderRuns(const std::vector<JournalSection>& sections,
                   const std::vector<std::string>& paths);

/// What the ranks of one run have in common. Not JournalStart::run: ranks that were restored from
/// positions of the same batch may count differently.
bool StartAlike(const JournalSection& one, const JournalSection& other);

}  // namespace ringfeed::tools
