#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ringfeed/status.h"
#include "tools/trace/trace_file.h"

namespace ringfeed::tools {

/// Writes a merged trace. Spans come after all processes and rows, in the order of time. The output
/// appears under its name at End, and never without End. After an error only destruction is
/// allowed. For one thread.
class TraceWriter {
 public:
  virtual ~TraceWriter() = default;

  /// `since_ns`: the time of time 0, since 1970.
  virtual Status Begin(std::int64_t since_ns) = 0;
  /// Processes are numbered from 1 on.
  virtual Status AddProcess(std::int64_t process, const std::string& name) = 0;
  /// `row` has the numbers of its file, which belongs to `process`.
  virtual Status AddRow(std::int64_t process, const TraceRow& row) = 0;
  virtual Status AddSpan(std::int64_t process, const TraceEvent& span) = 0;
  virtual Status End() = 0;
};

/// Writes the file `path` in the trace event format, for Perfetto and chrome://tracing: an entry a
/// line.
std::unique_ptr<TraceWriter> NewEventWriter(std::string path);

}  // namespace ringfeed::tools
