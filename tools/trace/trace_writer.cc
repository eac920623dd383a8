#include "tools/trace/trace_writer.h"

#include <array>
#include <cstdio>
#include <span>

namespace ringfeed::tools {
namespace {

// Rows of a file get new numbers: threads of two processes may have the same number, and each
// becomes one row.
constexpr std::int64_t kThreadsOfProcess = 1'000'000;

std::int64_t ThreadOf(std::int64_t process, std::int64_t thread) {
  return process * kThreadsOfProcess + thread;
}

std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string MicrosText(std::int64_t nanos) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(nanos / 1000),
                static_cast<long long>(nanos % 1000));
  return text.data();
}

}  // namespace

Status TraceWriter::Begin(std::int64_t since_ns) {
  since_ns_ = since_ns;
  if (Status status = file_.Open(); !status.ok()) return status;
  return Put("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
}

Status TraceWriter::AddProcess(std::int64_t process, const std::string& name) {
  Status status = AddName("process_name", process, 0, {{"name", name}});
  if (!status.ok()) return status;
  return AddName("process_sort_index", process, 0, {{"sort_index", process}});
}

Status TraceWriter::AddRow(std::int64_t process, const TraceRow& row) {
  return AddName("thread_name", process, ThreadOf(row.process, row.thread), {{"name", row.name}});
}

Status TraceWriter::AddSpan(std::int64_t process, const TraceEvent& span) {
  return AddEntry("{\"ph\": \"X\", \"name\": " + TextOf(span.name) +
                  ", \"cat\": " + TextOf(span.category) + ", \"pid\": " + std::to_string(process) +
                  ", \"tid\": " + std::to_string(ThreadOf(span.process, span.thread)) +
                  ", \"ts\": " + MicrosText(span.begin_ns - since_ns_) +
                  ", \"dur\": " + MicrosText(span.duration_ns) + "}");
}

Status TraceWriter::End() {
  if (Status status = Put("\n]}\n"); !status.ok()) return status;
  return file_.Commit();
}

Status TraceWriter::AddName(const char* kind, std::int64_t process, std::int64_t thread,
                            const Json& args) {
  return AddEntry(
      TextOf({{"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", args}}));
}

Status TraceWriter::AddEntry(const std::string& entry) {
  const char* const before = std::exchange(empty_, false) ? "\n" : ",\n";
  if (Status status = Put(before); !status.ok()) return status;
  return Put(entry);
}

Status TraceWriter::Put(std::string_view text) {
  return file_.Append(std::as_bytes(std::span(text)));
}

}  // namespace ringfeed::tools
