#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/batch_origin.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"
#include "ringfeed/stats.h"
#include "tools/audit/journal_audit.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

// A table of more passes helps no one: then only the passes with findings are named.
constexpr std::size_t kPassesShown = 20;

std::string PassTable(const AuditReport& report) {
  TableRows rows = {{"pass", "", "records", "missing", "repeated", "damaged", "dropped"}};
  for (const PassAudit& pass : report.passes) {
    const bool shown = rows.size() <= kPassesShown || pass.missing > 0 || pass.repeated > 0;
    if (!shown || rows.size() > 2 * kPassesShown) continue;
    rows.push_back({CountText(pass.pass), pass.finished ? "finished" : "begun",
                    CountText(pass.records), CountText(pass.missing), CountText(pass.repeated),
                    CountText(pass.damaged), CountText(pass.dropped)});
  }
  return TableText(rows);
}

std::string Conclusion(const AuditReport& report) {
  const bool by_count = report.missing == 0 && report.repeated == 0 && report.loss_known();
  if (report.order_contradicted && by_count) {
    return "every record exactly once ONLY IF the runs were in the order that their files tell: "
           "keep "
           "one journal for all runs of a rank\n";
  }
  if (by_count && report.unlike_replicas > 0) return "NOT the same batches for all replicas\n";
  if (!report.exact()) return "NOT every record exactly once\n";
  if (!report.repeated_checked)
    return "the chain may deliver records several times: counted only\n";
  if (!report.missing_checked) return "no record more than once; the chain may leave some out\n";
  std::string text = "every record exactly once, as far as all ranks came";
  if (!report.records_known) {
    text += "; how many there are is not known: name the files with --files";
  }
  return text + "\n";
}

Json AuditReportJson(const AuditReport& report) {
  Json passes = Json::array();
  for (const PassAudit& pass : report.passes) {
    passes.push_back({{"pass", pass.pass},
                      {"finished", pass.finished},
                      {"records", pass.records},
                      {"missing", pass.missing},
                      {"repeated", pass.repeated},
                      {"damaged", pass.damaged},
                      {"dropped", pass.dropped},
                      {"before", pass.before}});
  }
  return {{"records", report.records},
          {"missing", report.missing},
          {"repeated", report.repeated},
          {"rolled_back", report.rolled_back},
          {"damaged", report.damaged},
          {"reported_damage", report.reported},
          {"dropped", report.dropped},
          {"exact", report.exact()},
          {"complete_batches", report.complete_batches},
          {"ended", report.ended},
          {"runs", report.runs},
          {"journals", report.journals},
          {"order_contradicted", report.order_contradicted},
          {"unlike_replicas", report.unlike_replicas},
          {"cut_journals", report.cut_journals},
          {"empty_journals", report.empty_journals},
          {"records_known", report.records_known},
          {"missing_checked", report.missing_checked},
          {"repeated_checked", report.repeated_checked},
          {"passes", std::move(passes)},
          {"findings", report.findings}};
}

std::string AuditReportText(const AuditReport& report) {
  std::string text = CountText(report.journals) +
                     (report.journals == 1 ? " journal" : " journals") + " of " +
                     CountText(report.runs) + (report.runs == 1 ? " run" : " runs");
  if (report.cut_journals > 0) {
    text += "; the last entry of " + CountText(report.cut_journals) + " is incomplete";
  }
  if (report.empty_journals > 0) text += "; " + CountText(report.empty_journals) + " of them empty";
  text += "\n" + CountText(report.records) + " records were delivered, and " +
          CountText(report.rolled_back) + " more that were rolled back; " +
          CountText(report.complete_batches) + " batches are complete\n\n" + PassTable(report) +
          "\n";
  for (const std::string& finding : report.findings) text += finding + "\n";
  return text + Conclusion(report);
}

constexpr char kAuditHelp[] =
    "Merges the journals of all ranks and runs of a chain (`ringfeed feed --journal`), and says "
    "whether each\nrecord was delivered exactly once in each pass.\n\n"
    "A run that starts from a batch rolls back what earlier runs delivered from there on: these "
    "are "
    "counted as\nrolled_back, not as repeated. Of a pass that is not at its end those batches are "
    "held against their size\nthat all ranks have delivered. Records before the batch that the "
    "first of the runs started from are not\nexpected. damaged are those that were skipped.\n\n"
    "Runs are told apart by from which batch they began, and with how many ranks; if "
    "RINGFEED_RUN_ID is set, alike\non all ranks of a launch, by that too. Their order is that of "
    "the lines in each file; then a run comes after\none that got to where it starts. Where both "
    "leave it open, the hosts' clocks decide.\n\n"
    "  ringfeed audit journal-*\n"
    "  ringfeed audit journal-* --files 'train-*.tfrecord' --json\n\n"
    "Exit status 1: a record is missing or repeated, a journal is damaged, no journal has an "
    "entry, files or\nclocks contradict the order of the runs, or damage was reported and nobody "
    "knows how many records "
    "there\nare (then name the files).";

Reader OpenToCount(std::span<const std::string> files, const std::string& format,
                   OnDamage on_damage) {
  OpenOptions options;
  if (files.size() == 1) options.cycle = options.threads = 1;
  options.format = format;
  options.on_damage = on_damage;
  options.note_records = true;
  return Batch(Parse(OpenFiles({files.begin(), files.end()}, options), RawParser()),
               {.size = 1024, .empty_batches = true});
}

// A file that is missing, or has no known format, is no damage that could be skipped.
void RefuseUnreadable(const std::string& file, const std::string& format) {
  Reader reader = OpenToCount({&file, 1}, format, OnDamage::kFail);
  Instance batch;
  if (reader.TryReadNext(&batch) != ReadResult::kFailed) return;
  if (ExitStatusOf(reader.status()) == kExitUsage) throw Error(reader.status());
}

// Adds what each file has, damaged ones that can be counted too.
void Count(Reader* reader, std::span<FileCount> counts) {
  ReadResult result;
  Instance batch;
  BatchOrigin origin;
  while ((result = reader->TryReadNext(&batch, {.origin = &origin})) == ReadResult::kRecord) {
    for (const RecordRange& range : origin.records) counts[range.file].records += range.count;
    for (const RecordRange& range : origin.damaged) counts[range.file].records += range.count;
  }
  if (result == ReadResult::kFailed) throw Error(reader->status());
}

FileCount CountAlone(const std::string& file, const std::string& format) {
  RefuseUnreadable(file, format);
  Reader reader = OpenToCount({&file, 1}, format, OnDamage::kSkip);
  FileCount count;
  Count(&reader, {&count, 1});
  count.lost_ranges = reader.Stats().lost_ranges > 0;
  return count;
}

// By one reader. False if there is any finding: then each file alone tells which one it is.
bool CountTogether(std::span<const std::string> files, const std::string& format,
                   std::span<FileCount> counts) {
  try {
    Reader reader = OpenToCount(files, format, OnDamage::kSkip);
    Count(&reader, counts);
    const PipelineStats stats = reader.Stats();
    return stats.lost_ranges == 0 && stats.files_refused == 0 && stats.files_missing == 0;
  } catch (const Error&) {
    return false;
  }
}

// A reader for each would spend most of the time on its threads.
std::vector<FileCount> CountRecords(std::span<const std::string> files, const std::string& format) {
  constexpr std::size_t kTogether = 1024;
  std::vector<FileCount> all;
  while (!files.empty()) {
    const std::span<const std::string> some = files.first(std::min(files.size(), kTogether));
    files = files.subspan(some.size());
    std::vector<FileCount> counts(some.size());
    if (some.size() == 1 || !CountTogether(some, format, counts)) {
      std::ranges::transform(some, counts.begin(),
                             [&](const std::string& file) { return CountAlone(file, format); });
    }
    all.insert(all.end(), counts.begin(), counts.end());
  }
  return all;
}

class AuditCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("audit", kAuditHelp);
    sub->add_option("JOURNAL", journals_, "journals of all ranks and runs")->required();
    auto* files =
        sub->add_option("--files", files_,
                        "the data, in the order in which they were fed: their records are "
                        "counted, if the journals do not say how many there are");
    sub->add_option("--format", format_, FormatText())->needs(files);
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    const std::vector<FileCount> counts = CountRecords(NamedFiles(files_, format_), format_);
    const AuditReport report = AuditJournals(ExpandNames(journals_), counts);
    if (json_) {
      PrintJson("audit", AuditReportJson(report));
    } else {
      std::fputs(AuditReportText(report).c_str(), stdout);
    }
    return report.exact() ? kExitFine : kExitData;
  }

 private:
  std::vector<std::string> journals_;
  std::vector<std::string> files_;
  std::string format_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewAuditCommand() { return std::make_unique<AuditCommand>(); }

}  // namespace ringfeed::tools
