#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "readers/formats/writing/output_file.h"
#include "ringfeed/status.h"
#include "tools/report.h"
#include "tools/trace/trace_file.h"

namespace ringfeed::tools {

/// Writes a merged trace in the trace event format, for Perfetto and chrome://tracing: an entry a
/// line. Spans come after all processes and rows, in the order of time. The file appears under its
/// name at End, and never without End. After an error only destruction is allowed. For one thread.
class TraceWriter {
 public:
  explicit TraceWriter(std::string path) : file_(std::move(path)) {}

  /// `since_ns`: the time of time 0, since 1970.
  Status Begin(std::int64_t since_ns);
  /// Processes are numbered from 1 on.
  Status AddProcess(std::int64_t process, const std::string& name);
  /// `row` has the numbers of its file, which belongs to `process`.
  Status AddRow(std::int64_t process, const TraceRow& row);
  Status AddSpan(std::int64_t process, const TraceEvent& span);
  Status End();

 private:
  Status AddName(const char* kind, std::int64_t process, std::int64_t thread, const Json& args);
  Status AddEntry(const std::string& entry);
  Status Put(std::string_view text);

  OutputFile file_;
  std::int64_t since_ns_ = 0;
  bool empty_ = true;
};

}  // namespace ringfeed::tools
