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

/// From where a run goes on, how far, and what it leaves behind for the next one.
struct TrailOptions {
  std::string position_in;
  std::string position_out;
  std::uint64_t position_every = 0;  ///< batches; 0: at the end alone
  std::uint64_t max_batches = 0;     ///< of all ranks together, in this run; 0: to the end
  std::string journal;

  /// Whether the run has to know where each batch comes from.
  bool follows_batches() const {
    return !position_out.empty() || max_batches > 0 || !journal.empty();
  }
  bool any() const { return follows_batches() || !position_in.empty(); }
};
/// Adds their options.
void AddTrailOptions(CLI::App* app, TrailOptions* options);

/// What a chain's position (Reader::Position) says of itself.
struct PositionSummary {
  std::uint64_t batch = 0;
  std::uint64_t records = 0;  ///< of the data set; 0: not known
  std::string data;           ///< tells data sets apart; the same whether records are known or not
};
/// Throws Error where `position` is none.
PositionSummary SummaryOf(const std::string& position);

/// What a file holds, without the end of its line. Throws Error where it cannot be read.
std::string ReadPositionFile(const std::string& path);
/// Throws Error where a position cannot be kept under that name: a device, a FIFO or a folder
/// stands there. To be asked before an hour's work, not behind it.
void CheckPositionFile(const std::string& path);
/// Replaces the file at once, or what a link of that name leads to: whoever reads it, also after a
/// crash, finds the old or the new one whole. Throws Error where it cannot be written.
void WritePositionFile(const std::string& path, const std::string& position);

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
