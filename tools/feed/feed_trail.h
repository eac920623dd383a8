#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ringfeed/journal.h"
#include "tools/feed/trail_options.h"

namespace ringfeed::tools {

/// What a run leaves behind as it goes: entries of its journal, positions. A batch's entry is
/// written before a position that counts it.
class FeedTrail {
 public:
  /// Asked for where the chain stands behind what was handed out.
  using Position = std::function<std::string()>;

  /// Before the first read. Of `start` what a position does not say is used. Throws Error where a
  /// file cannot be written.
  FeedTrail(const TrailOptions& options, JournalStart start, Position position);

  /// Of a batch that was handed out. Every number comes, also of batches without rows here: so
  /// --max-batches ends all ranks behind the same one. One that a failure cut short does not count.
  void Deliver(const BatchOrigin& origin);
  /// Whether the last batch that this run is to deliver was delivered.
  bool done() const { return limit_ > 0 && next_ >= limit_; }
  /// Once, behind the last delivery; `at_end`: the data are at their end; `damaged`: records and
  /// ranges that the reader reported.
  void Finish(bool at_end, std::uint64_t damaged = 0);
  /// Behind what counts, after Finish.
  const std::string& position() const { return position_text_; }

 private:
  void Save();

  const TrailOptions options_;
  const Position position_;
  std::optional<JournalWriter> journal_;
  std::uint64_t next_ = 0;     // behind the last delivery
  std::uint64_t limit_ = 0;    // of batch numbers; 0: none
  std::string position_text_;  // where it began, or was saved last
};

}  // namespace ringfeed::tools
