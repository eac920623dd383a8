#pragma once

#include <memory>
#include <span>

#include "readers/formats/format.h"

namespace ringfeed {

/// "lines": a record is a line without its end, which is LF or CRLF, each line its own. A last line
/// without an end is a record as well, an empty line is an empty one; an empty file has none.
std::shared_ptr<const Format> LinesFormat();

/// "jsonl": lines, each of which should be a JSON value (JSON Lines, NDJSON). Nothing of that is
/// checked here; found by its names and by a first line that is an object.
std::shared_ptr<const Format> JsonLinesFormat();

}  // namespace ringfeed
