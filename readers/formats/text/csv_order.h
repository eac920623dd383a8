#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/format.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What the cells of a CSV row say (RFC 4180), without their quotes. A blank as the delimiter is
/// any number of blanks and tabs. The last cell goes on to the end if its quote is open.
std::vector<std::string> CsvTexts(std::string_view row, char delimiter, bool quotes);

/// Puts the cells of a file's rows into the order of columns that its reader expects, and leaves
/// out those of other columns. Immutable.
class CsvOrder {
 public:
  /// By the rows that name the columns, the expected one and the file's. If one of the expected
  /// names is not in the file's row exactly once, `lacking` gets it.
  CsvOrder(std::string_view expected, std::string_view own, char delimiter, std::string* lacking);

  /// Why the row cannot be put in order; kResourceExhausted if there is no memory.
  Status Apply(FrameMemory* memory, RecordSpan* row) const;

 private:
  std::vector<std::size_t> from_;  // the file's column of each expected one
  std::size_t columns_ = 0;        // that the file has
  char delimiter_;
};

}  // namespace ringfeed
