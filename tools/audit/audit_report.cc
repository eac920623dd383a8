#include "tools/audit/audit_report.h"

#include <cstddef>
#include <vector>

#include "tools/report_text.h"

namespace ringfeed::tools {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// A table of more passes tells nobody anything: those that are not as they should be are named.
constexpr std::size_t kPassesShown = 20;

std::string PassTable(const AuditReport& report) {
  Rows rows = {{"pass", "", "records", "missing", "repeated", "damaged", "dropped"}};
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

}  // namespace

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
          {"cut_journals", report.cut_journals},
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
  text += "\n" + CountText(report.records) + " records were delivered, and " +
          CountText(report.rolled_back) + " more that were rolled back; " +
          CountText(report.complete_batches) + " batches are complete\n\n" + PassTable(report) +
          "\n";
  for (const std::string& finding : report.findings) text += finding + "\n";
  return text + Conclusion(report);
}

}  // namespace ringfeed::tools
