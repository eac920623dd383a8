#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/report.h"
#include "tools/trace/page_writer.h"
#include "tools/trace/trace_merge.h"

namespace ringfeed::tools {
namespace {

constexpr char kTraceHelp[] =
    "Merges the traces of one or several ranks, which `ringfeed feed --trace` wrote: into one for\n"
    "Perfetto or chrome://tracing (--out), or into a page that any browser draws, without "
    "anything\n"
    "from outside (--page).\n\n"
    "Each rank is a process there, named by its host. Times are laid beside each other by the\n"
    "clocks of the hosts: they differ by what these do. A file that was cut off, or is no such\n"
    "trace, ends it with status 1, and nothing is written.\n\n"
    "  ringfeed trace trace.json --page trace.html\n"
    "  ringfeed trace rank-*.json --out all.json";

double Seconds(std::int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

Json MergedJson(const std::vector<MergedTrace>& merged, const std::string& out,
                const std::string& page) {
  Json list = Json::array();
  for (const MergedTrace& trace : merged) {
    list.push_back({{"file", trace.file},
                    {"rank", trace.header.rank},
                    {"ranks", trace.header.ranks},
                    {"host", trace.header.host},
                    {"events", trace.events},
                    {"began_after_s", trace.offset_ns ? Json(Seconds(*trace.offset_ns)) : Json()}});
  }
  const auto name = [](const std::string& path) { return path.empty() ? Json() : Json(path); };
  return {{"out", name(out)}, {"page", name(page)}, {"traces", std::move(list)}};
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
    sub->add_option("--page", page_, "a page of HTML that draws it; what stood there is replaced");
    sub->add_flag("--json", json_, "which files it has, for machines");
    return sub;
  }

  int Run() override {
    std::vector<MergedTrace> merged;
    CheckNames();
    const Status status = MergeTraces(files_, Writers(), &merged);
    if (!status.ok()) {
      TellFailure(status);
      return ExitStatusOf(status);
    }
    if (json_) {
      PrintJson(MergedJson(merged, out_, page_));
    } else {
      std::fputs(MergedText(merged).c_str(), stdout);
    }
    return kExitFine;
  }

 private:
  // There must be an output, and it must not be an input.
  void CheckNames() const {
    if (out_.empty() && page_.empty()) {
      throw Refuse(
          "name what to write: --page trace.html for a browser, or --out all.json for Perfetto");
    }
    RefuseOneOutputTwice({out_, page_});
    RefuseInputAsOutput(files_, out_);
    RefuseInputAsOutput(files_, page_);
  }
  std::vector<std::unique_ptr<TraceWriter>> Writers() const {
    std::vector<std::unique_ptr<TraceWriter>> writers;
    if (!out_.empty()) writers.push_back(NewEventWriter(out_));
    if (!page_.empty()) writers.push_back(NewPageWriter(page_));
    return writers;
  }

  std::vector<std::string> files_;
  std::string out_;
  std::string page_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTraceCommand() { return std::make_unique<TraceCommand>(); }

}  // namespace ringfeed::tools
