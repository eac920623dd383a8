#pragma once

#include <memory>
#include <string>

#include "tools/trace/trace_writer.h"

namespace ringfeed::tools {

/// Writes the file `path` in the trace event format, for Perfetto and chrome://tracing: an entry a
/// line.
std::unique_ptr<TraceWriter> NewEventWriter(std::string path);

}  // namespace ringfeed::tools
