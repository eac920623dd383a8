#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ringfeed/journal.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// From which position a run goes on, how far, and what it saves for the next one.
struct TrailOptions {
  std::string position_in;
  std::string position_out;
  std::uint64_t position_every = 0;  ///< batches; 0: at the end alone
  std::uint64_t max_batches = 0;     ///< of all ranks together, in this run; 0: to the end
  std::string journal;

  /// Whether the run has to know the origin of each batch.
  bool follows_batches() const {
    return !position_out.empty() || max_batches > 0 || !journal.empty();
  }
  bool any() const { return follows_batches() || !position_in.empty(); }
};
/// Adds their options.
void AddTrailOptions(CLI::App* app, TrailOptions* options);

/// The contents of a chain's position (Reader::Position).
struct PositionSummary {
  std::uint64_t batch = 0;
  std::uint64_t records = 0;  ///< of the data set; 0: not known
  std::string data;           ///< tells data sets apart; the same whether records are known or not
};
/// Throws Error if `position` is no position.
PositionSummary SummaryOf(const std::string& position);

/// The contents of a file, without the end of its line. Throws Error if it cannot be read.
std::string ReadPositionFile(const std::string& path);
/// Throws Error if a position cannot be kept under that name, because it is a device, a FIFO or a
/// folder. Call it before an hour's work, not after it.
void CheckPositionFile(const std::string& path);
/// Replaces the file, or the target of a link of that name, at once: readers, also after a crash,
/// find the old or the new one whole. Throws Error if it cannot be written.
void WritePositionFile(const std::string& path, const std::string& position);

/// What a run saves as it goes: entries of its journal, positions. A batch's entry is written
/// before a position that counts it.
class FeedTrail {
 public:
  /// Gives the chain's position after the batches handed out.
  using Position = std::function<std::string()>;

  /// Before the first read. Uses of `start` what a position does not say. Throws Error if a file
  /// cannot be written.
  FeedTrail(const TrailOptions& options, JournalStart start, Position position);

  /// Call it for each batch that was handed out. Every number comes, also for batches without rows
  /// here, so that --max-batches ends all ranks after the same one. A batch that a failure cut
  /// short does not count.
  void Deliver(const BatchOrigin& origin);
  /// Whether the last batch that this run is to deliver was delivered.
  bool done() const { return limit_ > 0 && next_ >= limit_; }
  /// Call once, after the last delivery. `at_end`: the data are at their end; `damaged`: records
  /// and ranges that the reader reported.
  void Finish(bool at_end, std::uint64_t damaged = 0);
  /// The position after the counted batches; call it after Finish.
  const std::string& position() const { return position_text_; }

 private:
  void Save();

  const TrailOptions options_;
  const Position position_;
  std::optional<JournalWriter> journal_;
  std::uint64_t next_ = 0;     // after the last delivery
  std::uint64_t limit_ = 0;    // of batch numbers; 0: none
  std::string position_text_;  // the first position, or the last saved one
};

}  // namespace ringfeed::tools
