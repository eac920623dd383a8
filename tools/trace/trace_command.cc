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
#include "tools/trace/trace_merge.h"

namespace ringfeed::tools {
namespace {

constexpr char kTraceHelp[] =
    "Merges the traces of several ranks, which `ringfeed feed --trace` wrote, into one file for\n"
    "https://ui.perfetto.dev or chrome://tracing. A single trace opens there without this.\n\n"
    "Each rank is a process there, named by its host. Times are laid beside each other by the\n"
    "clocks of the hosts: they differ by what these do. A file that was cut off, or is no such\n"
    "trace, ends it with status 1, and nothing is written.\n\n"
    "  ringfeed trace rank-*.json --out all.json";

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
      PrintJson(MergedJson(merged, out_));
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
