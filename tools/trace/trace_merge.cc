#include "tools/trace/trace_merge.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "readers/formats/writing/output_file.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

// Rows of a file are numbered anew: of two processes that have threads of the same number, each is
// one.
constexpr std::int64_t kThreadsOfProcess = 1'000'000;

/// A file and the event of it that is next.
struct Input {
  explicit Input(std::string path) : file(std::move(path)) {}
  TraceFile file;
  std::optional<TraceEvent> next;
  MergedTrace told;
};
using Inputs = std::vector<std::unique_ptr<Input>>;

std::string MicrosText(std::int64_t nanos) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(nanos / 1000),
                static_cast<long long>(nanos % 1000));
  return text.data();
}

/// The list of a trace, an entry a line.
class TraceWriter {
 public:
  explicit TraceWriter(std::string path) : file_(std::move(path)) {}

  Status Begin() {
    if (Status status = file_.Open(); !status.ok()) return status;
    return Put("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  }
  Status AddName(const char* kind, std::int64_t process, std::int64_t thread, const Json& args) {
    const Json entry = {
        {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", args}};
    return AddEntry(entry.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  Status AddSpan(const TraceEvent& event, std::int64_t process, std::int64_t since_ns) {
    const Json texts = {event.name, event.category};
    const auto quoted = [&texts](std::size_t i) {
      return texts[i].dump(-1, ' ', false, Json::error_handler_t::replace);
    };
    return AddEntry("{\"ph\": \"X\", \"name\": " + quoted(0) + ", \"cat\": " + quoted(1) +
                    ", \"pid\": " + std::to_string(process) +
                    ", \"tid\": " + std::to_string(ThreadOf(event.process, event.thread)) +
                    ", \"ts\": " + MicrosText(event.begin_ns - since_ns) +
                    ", \"dur\": " + MicrosText(event.duration_ns) + "}");
  }
  Status End() {
    if (Status status = Put("\n]}\n"); !status.ok()) return status;
    return file_.Commit();
  }
  static std::int64_t ThreadOf(std::int64_t process, std::int64_t thread) {
    return process * kThreadsOfProcess + thread;
  }

 private:
  Status AddEntry(const std::string& entry) {
    const char* const before = std::exchange(empty_, false) ? "\n" : ",\n";
    if (Status status = Put(before); !status.ok()) return status;
    return Put(entry);
  }
  Status Put(std::string_view text) { return file_.Append(std::as_bytes(std::span(text))); }

  OutputFile file_;
  bool empty_ = true;
};

Status OpenAll(const std::vector<std::string>& files, const std::string& out, Inputs* inputs) {
  for (const std::string& file : files) {
    std::error_code unknown;  // what is not there is no file of these
    if (std::filesystem::equivalent(file, out, unknown)) {
      return Status(StatusCode::kInvalidArgument, out + " is one of the traces: name another one");
    }
    Input& input = *inputs->emplace_back(std::make_unique<Input>(file));
    Status status = input.file.Open();
    if (status.ok()) status = input.file.Next(&input.next);
    if (!status.ok()) return status;
    input.told.file = file;
    input.told.header = input.file.header();
  }
  std::stable_sort(inputs->begin(), inputs->end(), [](const auto& one, const auto& other) {
    return one->told.header.rank < other->told.header.rank;
  });
  return {};
}

// Two runs of one rank are told apart by their files.
std::string ProcessName(const Inputs& inputs, const Input& input) {
  const TraceHeader& header = input.told.header;
  std::string name = "rank " + std::to_string(header.rank);
  if (!header.host.empty()) name += " on " + header.host;
  const auto same = std::count_if(inputs.begin(), inputs.end(), [&](const auto& other) {
    return other->told.header.rank == header.rank && other->told.header.host == header.host;
  });
  return same > 1 ? name + " (" + input.told.file + ")" : name;
}

Status WriteNames(const Inputs& inputs, TraceWriter* writer) {
  Status status;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto process = static_cast<std::int64_t>(i) + 1;
    status =
        writer->AddName("process_name", process, 0, {{"name", ProcessName(inputs, *inputs[i])}});
    if (status.ok()) {
      status = writer->AddName("process_sort_index", process, 0, {{"sort_index", process}});
    }
    for (const TraceRow& row : inputs[i]->file.rows()) {
      if (!status.ok()) return status;
      status =
          writer->AddName("thread_name", process, TraceWriter::ThreadOf(row.process, row.thread),
                          {{"name", row.name}});
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status WriteSpans(const Inputs& inputs, std::int64_t since_ns, TraceWriter* writer) {
  using Turn = std::pair<std::int64_t, std::size_t>;  // the earliest, of those the lowest rank
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->next) turns.emplace(inputs[i]->next->begin_ns, i);
  }
  while (!turns.empty()) {
    const std::size_t i = turns.top().second;
    turns.pop();
    Input& input = *inputs[i];
    Status status = writer->AddSpan(*input.next, static_cast<std::int64_t>(i) + 1, since_ns);
    ++input.told.events;
    if (status.ok()) status = input.file.Next(&input.next);
    if (!status.ok()) return status;
    if (input.next) turns.emplace(input.next->begin_ns, i);
  }
  return {};
}

}  // namespace

Status MergeTraces(const std::vector<std::string>& files, const std::string& out,
                   std::vector<MergedTrace>* merged) {
  Inputs inputs;
  if (Status status = OpenAll(files, out, &inputs); !status.ok()) return status;
  if (inputs.empty()) return Status(StatusCode::kInvalidArgument, "there is no trace to merge");
  // A trace without a span began at no time.
  std::int64_t since_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& input : inputs) {
    if (input->next) since_ns = std::min(since_ns, input->told.header.start_realtime_ns);
  }
  TraceWriter writer(out);
  Status status = writer.Begin();
  if (status.ok()) status = WriteNames(inputs, &writer);
  if (status.ok()) status = WriteSpans(inputs, since_ns, &writer);
  if (status.ok()) status = writer.End();
  if (!status.ok()) return status;
  merged->clear();
  for (const auto& input : inputs) {
    merged->push_back(std::move(input->told));
    MergedTrace& told = merged->back();
    if (told.events > 0) told.offset_ns = told.header.start_realtime_ns - since_ns;
  }
  return {};
}

}  // namespace ringfeed::tools
