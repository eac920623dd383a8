#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/status.h"
#include "tools/trace/trace_file.h"

namespace ringfeed::tools {

/// One file's part of a merged trace.
struct MergedTrace {
  std::string file;
  TraceHeader header;
  std::uint64_t events = 0;
  /// How much later than the first one it began; none without events.
  std::optional<std::int64_t> offset_ns{};
};

/// Merges traces of several ranks into the file `out`: a process for each file, named by rank and
/// host, in the order of ranks; its rows are those of the file. Events are in the order of time, by
/// the clocks of the hosts. One line of each file is in memory, whatever their lengths. Writes
/// `out` and fills *merged, in the order of ranks, only if OK is returned. Errors: kDamaged with
/// file and line; the system's error for a file.
Status MergeTraces(const std::vector<std::string>& files, const std::string& out,
                   std::vector<MergedTrace>* merged);

}  // namespace ringfeed::tools
