#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

/// The runs that journals tell of. Sections belong to one run where they start from the same batch
/// with the same number of ranks and the same launch, each with another rank. Later ones than a
/// section, by the time of their start and by their place in a file, roll back what it delivered
/// beyond where they start from, but for those of its own run.
class JournalRuns {
 public:
  /// Reads all of them once. Throws Error: a file that is none, a damaged entry, and journals that
  /// do not belong together: other data, or batches made otherwise.
  explicit JournalRuns(std::vector<std::string> paths);

  /// In the order of the files, and in them of their entries.
  const std::vector<JournalSection>& sections() const { return sections_; }
  const std::vector<std::string>& paths() const { return paths_; }
  /// What holds for all of them; `records` where any of them knows these.
  const JournalStart& shared() const { return shared_; }
  /// Journals whose last entry is incomplete.
  std::size_t cut_journals() const { return cut_journals_; }
  /// Journals without any whole entry.
  std::size_t empty_journals() const { return empty_journals_; }
  /// By rank the section that stands for it in the latest run, or, as long as that one has none, in
  /// the one before where that began alike; null for a rank that has not begun.
  const std::vector<const JournalSection*>& last_run() const { return last_run_; }
  /// The smallest batch that a run started from: nothing is known of those before.
  std::uint64_t first_batch() const;
  /// How many runs there were.
  std::size_t runs() const { return runs_; }
  /// Whether each rank of the latest run came to the end of the data.
  bool ended() const;
  /// All batches below were delivered by all of the latest run's ranks, or before it.
  std::uint64_t complete_batches() const;

 private:
  void Read(std::size_t journal);
  void Join(const JournalSection& section);
  void RollBack();

  const std::vector<std::string> paths_;
  std::vector<JournalSection> sections_;
  JournalStart shared_;
  std::size_t cut_journals_ = 0;
  std::size_t empty_journals_ = 0;
  std::size_t runs_ = 0;
  std::vector<const JournalSection*> last_run_;
};

}  // namespace ringfeed::tools
