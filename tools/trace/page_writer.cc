#include "tools/trace/page_writer.h"

#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "readers/formats/writing/output_file.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

// A trace's names come from anywhere, so no text in them may end the element that contains it.
std::string ScriptText(const Json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// The trace is an object: a span is [row, begin, duration, name] in nanoseconds, a row [process,
// name], a process its name. Rows and processes come after the spans, since a row without a name is
// known only by its first span.
class PageWriter : public TraceWriter {
 public:
  explicit PageWriter(std::string path) : file_(std::move(path)) {}

  Status Begin(std::int64_t since_ns) override {
    since_ns_ = since_ns;
    if (Status status = file_.Open(); !status.ok()) return status;
    const std::string_view page = TracePage();
    if (Status status = Put(page.substr(0, page.find(kTracePlace))); !status.ok()) return status;
    return Put("<script type=\"application/json\" id=\"trace\">{\"spans\": [");
  }
  Status AddProcess(std::int64_t process, const std::string& name) override {
    processes_.push_back(name);
    numbers_[process] = processes_.size() - 1;
    return {};
  }
  Status AddRow(std::int64_t process, const TraceRow& row) override {
    std::uint64_t number = 0;
    return RowOf(process, row, &number);
  }
  Status AddSpan(std::int64_t process, const TraceEvent& span) override {
    if (++spans_ > kMostSpansOfPage) return TooMany("spans", kMostSpansOfPage);
    const TraceRow unnamed = {span.process, span.thread, span.category};
    std::uint64_t row = 0;
    if (Status status = RowOf(process, unnamed, &row); !status.ok()) return status;
    return Put((spans_ == 1 ? "\n[" : ",\n[") + std::to_string(row) + "," +
               std::to_string(span.begin_ns - since_ns_) + "," + std::to_string(span.duration_ns) +
               "," + ScriptText(span.name) + "]");
  }
  Status End() override {
    const Json processes = processes_;
    const Json began_ms = since_ns_ / 1'000'000;
    Status status =
        Put("\n],\n\"rows\": " + ScriptText(rows_) + ",\n\"processes\": " + ScriptText(processes) +
            ",\n\"began_ms\": " + ScriptText(began_ms) + "}</script>");
    const std::string_view page = TracePage();
    if (status.ok()) status = Put(page.substr(page.find(kTracePlace) + kTracePlace.size()));
    return status.ok() ? file_.Commit() : status;
  }

 private:
  Status RowOf(std::int64_t process, const TraceRow& row, std::uint64_t* number) {
    const auto [found, is_new] =
        places_.try_emplace({process, row.process, row.thread}, rows_.size());
    *number = found->second;
    if (!is_new) return {};
    rows_.push_back({numbers_[process], row.name});
    return rows_.size() > kMostRowsOfPage ? TooMany("rows", kMostRowsOfPage) : Status();
  }
  Status TooMany(const std::string& what, std::uint64_t most) const {
    return Status(StatusCode::kInvalidArgument,
                  file_.path() + " would have more than " + CountText(most) + " " + what +
                      ", which no browser draws well: write them with --out, for Perfetto, or "
                      "give fewer files, or trace fewer batches");
  }
  Status Put(std::string_view text) { return file_.Append(std::as_bytes(std::span(text))); }

  OutputFile file_;
  std::int64_t since_ns_ = 0;
  std::uint64_t spans_ = 0;
  std::vector<std::string> processes_;
  std::map<std::int64_t, std::size_t> numbers_;  ///< a process's place in processes_
  Json rows_ = Json::array();
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::uint64_t> places_;
};

}  // namespace

std::unique_ptr<TraceWriter> NewPageWriter(std::string path) {
  return std::make_unique<PageWriter>(std::move(path));
}

}  // namespace ringfeed::tools
