#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringfeed::tools {

/// What was delivered in one pass, without what was rolled back.
struct PassAudit {
  std::uint64_t pass = 0;
  bool finished = false;  ///< else its batches up to AuditReport::complete_batches are audited
  std::uint64_t records = 0;
  std::uint64_t missing = 0;
  std::uint64_t repeated = 0;  ///< deliveries beyond a record's first
  std::uint64_t damaged = 0;
  std::uint64_t dropped = 0;  ///< as drop_remainder asks for
  /// Places before the batch that the first of the runs started from: no journal has entries for
  /// them.
  std::uint64_t before = 0;
};

/// The result for the journals of any number of runs and ranks.
struct AuditReport {
  std::uint64_t records = 0;  ///< delivered, without what was rolled back
  std::uint64_t missing = 0;
  std::uint64_t repeated = 0;
  std::uint64_t rolled_back = 0;
  std::uint64_t damaged = 0;
  std::uint64_t dropped = 0;
  std::uint64_t complete_batches = 0;  ///< delivered by all ranks
  std::vector<PassAudit> passes;
  bool missing_checked = true;   ///< false if the chain may leave records out
  bool repeated_checked = true;  ///< false if it may deliver them several times
  bool records_known = true;     ///< else only gaps between delivered records count as missing
  bool ended = false;            ///< all ranks came to the end of the data
  std::size_t journals = 0;
  std::size_t cut_journals = 0;    ///< with an incomplete last entry
  std::size_t empty_journals = 0;  ///< without any entry, as of a run killed before it began
  std::size_t runs = 0;
  /// Whether files or clocks contradict the order of the runs: there may have been another one.
  bool order_contradicted = false;
  std::uint64_t unlike_replicas = 0;  ///< batches of which a replica of a rank had other records
  std::vector<std::string> findings;  ///< which are missing or repeated: the first ten of each

  std::uint64_t reported = 0;  ///< damaged records and ranges, by all runs, rolled back or not

  /// If the number of records is unknown, so is the number lost in damage.
  bool loss_known() const { return records_known || reported == 0; }
  /// Without any run nothing is proven.
  bool exact() const {
    return runs > 0 && missing == 0 && repeated == 0 && unlike_replicas == 0 && loss_known() &&
           !order_contradicted;
  }
};

/// The counts of one file.
struct FileCount {
  std::uint64_t records = 0;  ///< damaged ones too
  /// Whether there is damage with no known record in it. A run that may not skip it ends at the
  /// first such damage, which takes the place of one record and shifts the numbers of the records
  /// after it.
  bool lost_ranges = false;
};

/// Merges journals. `files`, if not empty, has the counts of each file. Throws Error if a journal
/// cannot be read or does not belong to the others.
AuditReport AuditJournals(const std::vector<std::string>& paths,
                          const std::vector<FileCount>& files = {});

}  // namespace ringfeed::tools
