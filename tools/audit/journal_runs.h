#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/journal.h"
#include "tools/audit/run_order.h"

namespace ringfeed::tools {

/// The runs in the journals, in their order (OrderRuns), of replicas 0 alone. A run rolls back what
/// those before it delivered beyond its start. Runs that start alike and follow each other count as
/// one, because ranks come back one by one: the last section of each rank counts.
class JournalRuns {
 public:
  /// Reads all of them once. Throws Error: a file that is no journal, a damaged entry, and journals
  /// that do not belong together, because of other data or batches made differently.
  explicit JournalRuns(std::vector<std::string> paths);

  /// In the order of the files, and in them of their entries.
  const std::vector<JournalSection>& sections() const { return sections_; }
  const std::vector<std::string>& paths() const { return paths_; }
  /// What is common to all of them; `records` if any of them has these.
  const JournalStart& shared() const { return shared_; }
  /// Journals whose last entry is incomplete.
  std::size_t cut_journals() const { return cut_journals_; }
  /// Journals without any whole entry.
  std::size_t empty_journals() const { return empty_journals_; }
  /// By rank, its section in the latest run, or, while there is none, in the run before that began
  /// alike; null for a rank that has not begun.
  const std::vector<const JournalSection*>& last_run() const { return last_run_; }
  /// The smallest batch that a run started from: nothing is known about earlier batches.
  std::uint64_t first_batch() const;
  /// Why the runs may have been in another order; empty if nothing contradicts it.
  const std::vector<std::string>& contradictions() const { return contradictions_; }
  /// How many runs there were.
  std::size_t runs() const { return runs_; }
  /// Whether each rank of the latest run came to the end of the data.
  bool ended() const;
  /// All batches below it were delivered by all of the latest run's ranks, or before that run.
  std::uint64_t complete_batches() const;

 private:
  void Read(std::size_t journal);
  void Join(const JournalSection& section);
  void RollBack(const std::vector<std::vector<std::size_t>>& runs);
  void FindLastRun(const std::vector<std::vector<std::size_t>>& runs);

  const std::vector<std::string> paths_;
  std::vector<JournalSection> sections_;
  JournalStart shared_;
  std::size_t cut_journals_ = 0;
  std::size_t empty_journals_ = 0;
  std::size_t runs_ = 0;
  std::vector<std::string> contradictions_;
  std::vector<const JournalSection*> last_run_;
};

}  // namespace ringfeed::tools
