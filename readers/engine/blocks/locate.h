#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "readers/engine/blocks/block.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Runs a two-phase parser's first phase over a framed block. A row that cannot be parsed fails
/// (Block::FailAt), or, if damage is skipped, becomes a damaged row; a user's exception always
/// fails. `explain`: the block notes which rows were refused, and why.
void LocateRows(const Parser& parser, Parser::Scratch* scratch, OnDamage on_damage, bool explain,
                Block* block);

/// Makes rows damaged, or ends the block with the first of them, if their mapped file was found
/// shorter than its mapping: their fields, or a filter's answer, may have come from zeros. Call it
/// after everything that reads the rows.
void LoseShrunkRows(OnDamage on_damage, Block* block);
/// The failure of a row whose bytes may be zeros in place of the mapped file's.
Status WhyDamaged(const InputFile& file);

/// A parser's failure of a row with the row's place, and, of a file's first record, with what that
/// may be instead.
Status PlacedFailure(const Parser& parser, const Block& block, std::uint32_t row,
                     const Status& why);

/// The range of a record that was found damaged by its parser: its payload's bytes if its place
/// is known, else an empty one. The reason names its number.
DamagedRange DamagedRecord(const Status& why, const RecordSpan& record);

/// Whether the policy lets a failure of a row be skipped.
bool IsSkippable(const Status& status, OnDamage on_damage);

/// Cuts rows into pieces that take a parser about a millisecond, so that a stop is checked in
/// between (WorkerStop) and Close does not wait for all framed rows. The first piece has a few
/// rows; the time of each piece sets the size of the next one. One thread.
class RowPieces {
 public:
  /// Starts with other rows: the time of those before tells nothing of them.
  void Begin() { began_ = Clock::time_point(); }
  /// How many of `rows`, which are some, come next: one at least, and more than kMostBytes only
  /// if the first one alone is longer.
  std::size_t Next(std::span<const RecordSpan> rows) {
    const Clock::time_point now = Clock::now();
    if (began_ != Clock::time_point()) Adapt(now - began_);
    began_ = now;
    std::size_t bytes = rows.front().size;
    std::size_t count = 1;
    while (count < std::min(most_rows_, rows.size())) {
      bytes += rows[count].size;
      if (bytes > kMostBytes) break;
      ++count;
    }
    return count;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kFirstRows = 8;
  static constexpr std::size_t kMostRows = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  static constexpr std::chrono::milliseconds kLong{1};

  void Adapt(Clock::duration taken) {
    if (taken < kLong) {
      most_rows_ = std::min(2 * most_rows_, kMostRows);
    } else {
      most_rows_ = std::max<std::size_t>(most_rows_ / 4, 1);
    }
  }

  std::size_t most_rows_ = kFirstRows;
  Clock::time_point began_;
};

}  // namespace ringfeed
