#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/machine/side_thread.h"
#include "readers/parsers/wrappers/map_row.h"
#include "ringfeed/stats.h"

namespace ringfeed {

/// How long rows took: the slowest, and how many were given up. Thread safe.
class RowTimes {
 public:
  void Note(const DataPlace& place, std::chrono::steady_clock::duration took, bool given_up);
  void AddTo(PipelineStats* stats) const;

 private:
  mutable std::mutex mutex_;
  std::vector<SlowRow> slowest_;  ///< the slowest first
  std::uint64_t given_up_ = 0;
};

/// Rows of a Map whose function may hang: a thread of its own calls it, with a copy of the record.
/// A call that takes longer than row_timeout_ms is given up, and its thread with it: the thread
/// ends when the function returns, if it does. Used by one thread.
class TimedMap {
 public:
  TimedMap(std::shared_ptr<const MapRules> rules, std::shared_ptr<RowTimes> times);
  ~TimedMap();
  TimedMap(const TimedMap&) = delete;
  TimedMap& operator=(const TimedMap&) = delete;

  /// As MapRow::Fill, into `place`. kDeadlineExceeded if the function does not return in time;
  /// kResourceExhausted if there is no thread for it.
  Status Fill(const RecordSpan& record, const CurrentRows* rows, RowPlace* place);

 private:
  struct Call;
  Status Start();

  const std::shared_ptr<const MapRules> rules_;
  const std::shared_ptr<RowTimes> times_;
  std::shared_ptr<Call> call_;        ///< what the thread works on
  std::optional<SideThread> thread_;  ///< empty before the first row, and after one was given up
};

}  // namespace ringfeed
