#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "readers/formats/writing/output_file.h"
#include "ringfeed/status.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/report.h"
#include "tools/trace/trace_file.h"

namespace ringfeed::tools {
namespace {

constexpr char kTraceHelp[] =
    "Merges the traces of several ranks, which `ringfeed feed --trace` wrote, into one file for\n"
    "https://ui.perfetto.dev or chrome://tracing. A single trace opens there without this.\n\n"
    "Each rank is a process there, named by its host. Times are laid beside each other by the\n"
    "clocks of the hosts: they differ by what these do. A file that was cut off, or is no such\n"
    "trace, ends it with status 1, and nothing is written.\n\n"
    "  ringfeed trace rank-*.json --out all.json";

/// One file's part of a merged trace.
struct MergedTrace {
  std::string file;
  TraceHeader header;
  std::uint64_t events = 0;
  /// How much later than the first one it began; none without events.
  std::optional<std::int64_t> offset_ns{};
};

// Rows of a file get new numbers: threads of two processes may have the same number, and each
// becomes one row.
constexpr std::int64_t kThreadsOfProcess = 1'000'000;

std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string MicrosText(std::int64_t nanos) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(nanos / 1000),
                static_cast<long long>(nanos % 1000));
  return text.data();
}

/// A trace in the trace event format, an entry a line. The file appears under its name at End, and
/// never without End. After a failure nothing more is written.
class TraceWriter {
 public:
  /// `since_ns`: the time of time 0, since 1970.
  TraceWriter(std::string path, std::int64_t since_ns)
      : file_(std::move(path)), since_ns_(since_ns), status_(file_.Open()) {
    Put("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  }

  /// Names go before spans, and spans in the order of time.
  void AddName(const char* kind, std::int64_t process, std::int64_t thread, const Json& args) {
    AddEntry(
        TextOf({{"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", args}}));
  }
  void AddSpan(std::int64_t process, const TraceEvent& span) {
    AddEntry("{\"ph\": \"X\", \"name\": " + TextOf(span.name) +
             ", \"cat\": " + TextOf(span.category) + ", \"pid\": " + std::to_string(process) +
             ", \"tid\": " + std::to_string(ThreadOf(span.process, span.thread)) +
             ", \"ts\": " + MicrosText(span.begin_ns - since_ns_) +
             ", \"dur\": " + MicrosText(span.duration_ns) + "}");
  }
  /// The new number of a row, by its numbers in its file.
  static std::int64_t ThreadOf(std::int64_t process, std::int64_t thread) {
    return process * kThreadsOfProcess + thread;
  }
  Status End() {
    Put("\n]}\n");
    return status_.ok() ? file_.Commit() : status_;
  }
  const Status& status() const { return status_; }

 private:
  void AddEntry(const std::string& entry) {
    Put(std::exchange(empty_, false) ? "\n" : ",\n");
    Put(entry);
  }
  void Put(std::string_view text) {
    if (status_.ok()) status_ = file_.Append(std::as_bytes(std::span(text)));
  }

  OutputFile file_;
  const std::int64_t since_ns_;
  Status status_;
  bool empty_ = true;
};

/// A file and its next event.
struct Input {
  explicit Input(std::string path) : file(std::move(path)) {}
  TraceFile file;
  std::optional<TraceEvent> next;
  MergedTrace told;
};
using Inputs = std::vector<std::unique_ptr<Input>>;

Status OpenAll(const std::vector<std::string>& files, Inputs* inputs) {
  for (const std::string& file : files) {
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

// The file name tells apart two runs of one rank.
std::string ProcessName(const Inputs& inputs, const Input& input) {
  const TraceHeader& header = input.told.header;
  std::string name = "rank " + std::to_string(header.rank);
  if (!header.host.empty()) name += " on " + header.host;
  const auto same = std::count_if(inputs.begin(), inputs.end(), [&](const auto& other) {
    return other->told.header.rank == header.rank && other->told.header.host == header.host;
  });
  return same > 1 ? name + " (" + input.told.file + ")" : name;
}

void WriteNames(const Inputs& inputs, TraceWriter* writer) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto process = static_cast<std::int64_t>(i) + 1;
    writer->AddName("process_name", process, 0, {{"name", ProcessName(inputs, *inputs[i])}});
    writer->AddName("process_sort_index", process, 0, {{"sort_index", process}});
    for (const TraceRow& row : inputs[i]->file.rows()) {
      writer->AddName("thread_name", process, TraceWriter::ThreadOf(row.process, row.thread),
                      {{"name", row.name}});
    }
  }
}

Status WriteSpans(const Inputs& inputs, TraceWriter* writer) {
  using Turn = std::pair<std::int64_t, std::size_t>;  // the earliest, of those the lowest rank
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->next) turns.emplace(inputs[i]->next->begin_ns, i);
  }
  while (!turns.empty() && writer->status().ok()) {
    const std::size_t i = turns.top().second;
    turns.pop();
    Input& input = *inputs[i];
    writer->AddSpan(static_cast<std::int64_t>(i) + 1, *input.next);
    ++input.told.events;
    if (Status status = input.file.Next(&input.next); !status.ok()) return status;
    if (input.next) turns.emplace(input.next->begin_ns, i);
  }
  return {};
}

/// Merges traces of several ranks into the file `out`: a process for each file, named by rank and
/// host, in the order of ranks; its rows are those of the file. Events are in the order of time, by
/// the clocks of the hosts. One line of each file is in memory, whatever their lengths. Writes
/// `out` and fills *merged, in the order of ranks, only if OK is returned. Errors: kDamaged with
/// file and line; the system's error for a file.
Status MergeTraces(const std::vector<std::string>& files, const std::string& out,
                   std::vector<MergedTrace>* merged) {
  Inputs inputs;
  if (Status status = OpenAll(files, &inputs); !status.ok()) return status;
  if (inputs.empty()) return Status(StatusCode::kInvalidArgument, "there is no trace to merge");
  // A trace without a span has no begin.
  std::int64_t since_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& input : inputs) {
    if (input->next) since_ns = std::min(since_ns, input->told.header.start_realtime_ns);
  }
  if (since_ns == std::numeric_limits<std::int64_t>::max()) since_ns = 0;
  TraceWriter writer(out, since_ns);
  WriteNames(inputs, &writer);
  Status status = WriteSpans(inputs, &writer);
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

double Seconds(std::int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

Json MergedJson(const std::vector<MergedTrace>& merged, const std::string& out) {
  Json list = Json::array();
  for (const MergedTrace& trace : merged) {
    list.push_back({{"file", trace.file},
                    {"rank", trace.header.rank},
                    {"ranks", trace.header.ranks},
                    {"host", trace.header.host},
                    {"events", trace.events},
                    {"began_after_s", trace.offset_ns ? Json(Seconds(*trace.offset_ns)) : Json()}});
  }
  return {{"out", out}, {"traces", std::move(list)}};
}

std::string MergedText(const std::vector<MergedTrace>& merged) {
  TableRows rows = {{"file", "rank", "host", "events", "began after s"}};
  for (const MergedTrace& trace : merged) {
    rows.push_back({trace.file, std::to_string(trace.header.rank), trace.header.host,
                    CountText(trace.events),
                    trace.offset_ns ? FixedText(Seconds(*trace.offset_ns), 6) : "-"});
  }
  return TableText(rows);
}

class TraceCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("trace", kTraceHelp);
    sub->add_option("FILE", files_, "traces")->required();
    sub->add_option("--out", out_, "the merged one; what stood there is replaced");
    sub->add_option("--page", page_)->group("");  // refused, with what to do instead
    sub->add_flag("--json", json_, "which files it has, for machines");
    return sub;
  }

  int Run() override {
    std::vector<MergedTrace> merged;
    CheckNames();
    const Status status = MergeTraces(files_, out_, &merged);
    if (!status.ok()) {
      TellFailure(status);
      return ExitStatusOf(status);
    }
    if (json_) {
      PrintJson("trace", MergedJson(merged, out_));
    } else {
      std::fputs(MergedText(merged).c_str(), stdout);
    }
    return kExitFine;
  }

 private:
  // There must be an output, and it must not be an input.
  void CheckNames() const {
    if (!page_.empty()) {
      throw Refuse(
          "there is no --page any more: open the trace in https://ui.perfetto.dev, or merge "
          "several with --out all.json");
    }
    if (out_.empty()) throw Refuse("name the file to write: --out all.json");
    RefuseInputAsOutput(files_, out_);
  }

  std::vector<std::string> files_;
  std::string out_;
  std::string page_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTraceCommand() { return std::make_unique<TraceCommand>(); }

}  // namespace ringfeed::tools
