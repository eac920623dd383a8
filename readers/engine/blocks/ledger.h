#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "readers/engine/blocks/row_tally.h"
#include "readers/order/plan_clock.h"
#include "ringfeed/io_options.h"
#include "ringfeed/record.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The account of a chain: what it read, and what came of that. Kept for the chain's life: ReInit,
/// Restore and SeekTo start another run, which goes on with the same ledger. Thread safe.
class Ledger {
 public:
  /// Ranges that are listed; all are counted.
  static constexpr std::size_t kMostListed = 1000;
  static constexpr std::size_t kMostChoicesListed = 10000;
  /// What a block brought besides its rows.
  struct Read {
    std::uint64_t payload_bytes = 0;
    std::uint64_t filtered = 0;
    std::uint64_t truncated = 0;
    std::uint64_t reopened = 0;
    std::int64_t lost_ranges = 0;  ///< less than 0 if a later block has the range of a record
  };
  /// Counts of a run that is over, entered at its end.
  struct RunTotals {
    std::uint64_t passes = 0;
    std::uint64_t read_bytes = 0;
    std::uint64_t grown_batches = 0;
    std::uint64_t late_wakes = 0;
    LeftOutRecords left_out{};   ///< of planned batches
    std::uint64_t order_ns = 0;  ///< the time that chunks of the order took to make
  };
  /// What happened to a file.
  enum class FileFate : std::uint8_t { kRead = 1, kRefused = 2, kMissing = 4 };

  /// Files by the way in which each was opened last, an IoPath: not in the page cache, and in it.
  /// As many as PipelineStats::io lists.
  using PathCounts = std::array<std::array<std::uint64_t, 2>, 5>;

  void Add(const Read& read);
  /// Adds the rows since the tally was `before`.
  void Add(const RowTally& before, const RowTally& now);
  /// A run is over.
  void Add(const RunTotals& totals);
  /// Ranges that could not be read; `count` may be more than the list has.
  void NoteDamage(std::span<const DamagedRange> ranges, std::uint64_t count);
  /// Warnings about files; each is listed once.
  void NoteWarnings(std::span<const DataWarning> warnings);
  /// A record that was to be delivered turned out damaged when it was parsed.
  void NoteSkipped(const DamagedRange& range, std::size_t payload_bytes);
  void NoteSkipped(const RecordSpan& record, const Status& why);

  /// So many rows that are counted as dropped were damaged.
  void TakeOffDropped(std::uint64_t rows) { dropped_.fetch_sub(rows, std::memory_order_relaxed); }
  /// These were planned after a failure that was found later.
  void TakeOff(const PlannedSums& sums);

  void NoteFile(const std::string& name, FileFate fate);
  /// A file without a byte was read, which is a warning.
  void NoteEmpty(const std::string& name);
  /// The same for a file that cannot be read; nothing if that says nothing about the file.
  void NoteFile(const std::string& name, const Status& why_not);
  /// A file was opened: it is read, and how.
  void NoteOpened(const IoChoice& choice);

  /// Warnings so far, with those that came again.
  std::uint64_t warned() const { return warned_.load(std::memory_order_relaxed); }
  /// The last warning, as the failure of a strict run.
  Status LastWarning() const;
  /// Damaged records and ranges so far.
  std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }
  void Fill(PipelineStats* stats) const;
  /// The same without lists, which grow with the files.
  void FillCounts(PipelineStats* stats, PathCounts* paths) const;

  /// At the end of pass `pass`: all of the `counted` rows, which the framers cut or the index has,
  /// must have come to the end of the plan. kInternal with both numbers if they have not.
  static Status Check(std::uint64_t pass, std::uint64_t counted, const RowTally& tally);
  /// The same at the end of the data, a stream's too: nothing is held back any more.
  static Status CheckEnd(std::uint64_t counted, const RowTally& tally);

 private:
  void FillAtomics(PipelineStats* stats) const;
  void FillNumbersLocked(PipelineStats* stats) const;
  std::uint64_t& PathOf(const IoChoice& choice) {
    return paths_[static_cast<std::size_t>(choice.path)][choice.resident ? 1 : 0];
  }

  // Counts: nothing is published with them.
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> payload_bytes_{0};
  std::atomic<std::uint64_t> damaged_{0};
  std::atomic<std::uint64_t> warned_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> reopened_{0};
  std::atomic<std::uint64_t> filtered_{0};
  std::atomic<std::uint64_t> truncated_{0};
  std::atomic<std::int64_t> lost_ranges_{0};
  mutable std::mutex mutex_;  ///< guards what follows; taken on rare events only
  std::vector<DamagedRange> damage_;
  std::vector<DataWarning> warnings_;
  DataWarning last_warning_;
  RunTotals ended_;  ///< of all runs that are over
  std::unordered_map<std::string, std::uint8_t> fates_;
  std::uint64_t files_read_ = 0;
  std::uint64_t files_refused_ = 0;
  std::uint64_t files_missing_ = 0;
  std::vector<IoChoice> choices_;
  PathCounts paths_{};  ///< of these
  std::unordered_map<std::string, std::size_t> choice_of_file_;
};

}  // namespace ringfeed
