#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ringfeed/journal.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The first line of a journal, and every other start entry, begins with this.
inline constexpr std::string_view kJournalMagic = "ringfeed-journal 1 ";
/// Longer lines are damage.
inline constexpr std::size_t kMostJournalLine = std::size_t{1} << 28;

// Entries as lines, a newline and a checksum included:
//
//   ringfeed-journal 1 batch=0 run=0 rank=0 ranks=2 … records=1000*7,12 *1f00aa3c
//   b 17 0 3:100+5 3:7 ! 3:105 *90c1b2d3     batch, pass, file:first+count …, ! damaged ones
//   e 157 *77fe0213
//   d 2 *11fe0213     damaged records and ranges that were reported
//   c 18 0 3:112+2 *90c1b2d3     a batch that a failure cut short: as b
//
// Texts have %XX for blanks, control characters, % and bytes that are no ASCII.

/// Replace *line.
void FormatJournalStart(const JournalStart& start, std::string* line);
void FormatJournalBatch(const BatchOrigin& origin, std::string* line);
void FormatJournalEnd(std::uint64_t batches, std::string* line);
void FormatJournalDamage(std::uint64_t damaged, std::string* line);

/// Parses a line without its newline. kDamaged says what is wrong with it; *entry is then
/// undefined.
Status ParseJournalLine(std::string_view line, JournalEntry* entry);

}  // namespace ringfeed
