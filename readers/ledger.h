#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "readers/row_tally.h"
#include "ringfeed/record.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The one account of a chain: what it read and what became of that. Kept for the chain's life:
/// ReInit, Restore and SeekTo start another run, which goes on with the same ledger. Thread safe.
class Ledger {
 public:
  /// Ranges that are listed; all are counted.
  static constexpr std::size_t kMostListed = 1000;
  /// What a block brought besides its rows.
  struct Read {
    std::uint64_t payload_bytes = 0;
    std::uint64_t filtered = 0;
    std::uint64_t truncated = 0;
    std::uint64_t reopened = 0;
  };

  void Add(const Read& read);
  /// What became of rows since the tally was `before`.
  void Add(const RowTally& before, const RowTally& now);
  /// Ranges that could not be read; `count` may be more than are listed.
  void NoteDamage(std::span<const DamagedRange> ranges, std::uint64_t count);
  /// A record that was to be delivered turned out damaged when it was parsed.
  void NoteSkipped(const DamagedRange& range, std::size_t payload_bytes);

  /// Damaged records and ranges so far.
  std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }
  void Fill(PipelineStats* stats) const;

  /// At the end of pass `pass`: all of the `counted` rows, which the framers cut or the index has,
  /// must have come to the end of the plan. kInternal with both numbers where they have not.
  static Status Check(std::uint64_t pass, std::uint64_t counted, const RowTally& tally);

 private:
  // Counts: nothing is published with them.
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> payload_bytes_{0};
  std::atomic<std::uint64_t> damaged_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> reopened_{0};
  std::atomic<std::uint64_t> filtered_{0};
  std::atomic<std::uint64_t> truncated_{0};
  mutable std::mutex mutex_;  ///< guards what follows; taken on rare events only
  std::vector<DamagedRange> damage_;
};

}  // namespace ringfeed
