#include "tools/feed/feed_report.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "ringfeed/io_options.h"
#include "ringfeed/stats.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kHazardsShown = 5;

// Share of the loop's time; none if there was no batch.
std::optional<double> StallOf(const DeviceLoopTimes& times) {
  const std::int64_t wall_ns = times.end_ns - times.begin_ns;
  if (wall_ns <= 0) return std::nullopt;
  return static_cast<double>(times.stall_ns) / static_cast<double>(wall_ns);
}

Json JsonOf(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::string PercentText(const std::optional<double>& part) {
  return part ? FixedText(100 * *part, 1) + " %" : "-";
}

constexpr std::size_t kDamageShown = 10;

double PerSecond(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

double GigaBytes(const FeedResult& result) {
  return static_cast<double>(result.delivered.payload_bytes) / 1e9;
}

// Files that were read in the same way, so that ten thousand of them are an entry.
struct FilesOfOneWay {
  const IoChoice* first = nullptr;
  std::size_t files = 0;
};

std::vector<FilesOfOneWay> GroupedByWay(const std::vector<IoChoice>& choices) {
  std::map<std::tuple<IoPath, bool, bool, std::string_view>, FilesOfOneWay> groups;
  for (const IoChoice& choice : choices) {
    FilesOfOneWay& group = groups[{choice.path, choice.direct, choice.resident, choice.reason}];
    if (group.files++ == 0) group.first = &choice;
  }
  std::vector<FilesOfOneWay> ways;
  for (const auto& [way, group] : groups) ways.push_back(group);
  return ways;
}

Json IoJson(const std::vector<IoChoice>& choices) {
  Json list = Json::array();
  for (const auto& [first, files] : GroupedByWay(choices)) {
    list.push_back({{"files", files},
                    {"first_file", first->file},
                    {"path", IoPathName(first->path)},
                    {"direct", first->direct},
                    {"resident", first->resident},
                    {"reason", first->reason}});
  }
  return list;
}

Json RemoteJson(const RemoteStats& remote) {
  if (remote.requests == 0 && remote.cached_bytes == 0) return nullptr;
  return {{"requests", remote.requests},        {"bytes", remote.bytes},
          {"retries", remote.retries},          {"hedges", remote.hedges},
          {"throttled", remote.throttled},      {"by_library", remote.by_library},
          {"cached_bytes", remote.cached_bytes}};
}

Json CheckJson(const std::optional<DeliveryCheck>& check) {
  if (!check || !check->done) return nullptr;
  return check->exact;
}

std::string SpeedText(const FeedResult& result) {
  const double gigabytes = GigaBytes(result);
  return RateText(PerSecond(1e9 * gigabytes, result.wall_s)) + " by the clock, " +
         FixedText(PerSecond(result.cpu_s, gigabytes), 3) + " CPU seconds per GB, " +
         CountText(static_cast<std::uint64_t>(
             PerSecond(static_cast<double>(result.delivered.records), result.wall_s))) +
         " records/s";
}

TableRows IoRows(const std::vector<IoChoice>& choices) {
  TableRows rows;
  for (const auto& [first, files] : GroupedByWay(choices)) {
    rows.push_back({rows.empty() ? "I/O path" : "", IoPathText(*first) + ", " + CountText(files) +
                                                        (files == 1 ? " file: " : " files: ") +
                                                        first->reason});
  }
  return rows;
}

std::string RemoteText(const RemoteStats& remote) {
  std::string text = CountText(remote.requests) + " requests";
  if (remote.retries > 0) text += ", " + CountText(remote.retries) + " after a failure";
  if (remote.hedges > 0) text += ", " + CountText(remote.hedges) + " of slow ranges once more";
  if (remote.throttled > 0)
    text += "; asked to slow down " + CountText(remote.throttled) + " times";
  return text;
}

std::string FilesText(const PipelineStats& stats) {
  std::string text = CountText(stats.files_read) + " read";
  if (stats.files_refused > 0) text += ", " + CountText(stats.files_refused) + " refused";
  if (stats.files_missing > 0) text += ", " + CountText(stats.files_missing) + " missing";
  return text;
}

TableRows DamageRows(const PipelineStats& stats) {
  TableRows rows;
  if (stats.damaged_records == 0) return {{"damaged", "nothing"}};
  const std::uint64_t ranges = std::min(stats.lost_ranges, stats.damaged_records);
  const std::uint64_t records = stats.damaged_records - ranges;
  std::string what = CountText(records) + (records == 1 ? " record" : " records");
  if (ranges > 0) {
    what += ", " + CountText(ranges) + (ranges == 1 ? " range" : " ranges") +
            " of which no record is known";
  }
  rows.push_back({"damaged", what});
  for (const DamagedRange& range : stats.damage) {
    if (rows.size() > kDamageShown) {
      rows.push_back({"", "… (all of them with --json)"});
      break;
    }
    rows.push_back({"", range.file + " bytes " + CountText(range.begin) + " to " +
                            CountText(range.end) + ": " + range.reason});
  }
  return rows;
}

TableRows WarningRows(const PipelineStats& stats) {
  TableRows rows;
  for (const DataWarning& warning : stats.warnings) {
    if (rows.size() == kDamageShown) {
      rows.push_back({"", "… (all of them with --json)"});
      break;
    }
    rows.push_back({rows.empty() ? "warning" : "", warning.file + ": " + warning.text});
  }
  return rows;
}

std::string LateWakesText(std::uint64_t late_wakes) {
  if (late_wakes == 0) return "none";
  return CountText(late_wakes) + ": a defect of ringfeed that cost a second each; please report it";
}

std::string StageTable(const PipelineStats& stats) {
  TableRows rows = {{"stage", "busy s", "waited s", "for"}};
  for (const StageStats& stage : stats.stages) {
    rows.push_back(
        {stage.name, FixedText(stage.busy_s, 3), FixedText(stage.wait_s, 3), stage.waits_for});
  }
  return stats.stages.empty() ? std::string() : TableText(rows);
}

std::string ArenaText(const FeedResult& result) {
  return BytesText(result.peak_rss_bytes) + " resident at most; of the arena " +
         BytesText(result.stats.arena_peak_bytes) + " of " + BytesText(result.stats.arena_bytes) +
         (result.stats.pages.empty() ? "" : ", pages: " + result.stats.pages);
}

void AddOrderReport(const FeedPlan& plan, const FeedResult& result, Json* json) {
  const Rank& rank = plan.batching.rank;
  (*json)["rank"] = rank.rank;
  (*json)["ranks"] = rank.world_size;
  (*json)["ranks_source"] = rank.source;
  (*json)["order"] = result.stats.order;
  (*json)["restored"] = result.stats.restored;
  (*json)["position"] = nullptr;
  if (!result.position.empty()) (*json)["position"] = result.position;
  (*json)["no_position"] = nullptr;
  if (!result.no_position.empty()) (*json)["no_position"] = result.no_position;
}

TableRows OrderRows(const PipelineStats& stats) {
  TableRows rows;
  if (!stats.order.empty()) rows.push_back({"order", stats.order});
  if (!stats.ranks.empty()) rows.push_back({"rank", stats.ranks});
  if (!stats.restored.empty()) rows.push_back({"restored", stats.restored});
  return rows;
}

std::string PassesText(const FeedPlan& plan) {
  if (plan.passes == 0) return ", passes without end";
  return plan.passes == 1 ? "" : " in " + CountText(plan.passes) + " passes";
}

TableRows SummaryRows(const FeedPlan& plan, const FeedReport& report) {
  const FeedResult& result = report.result;
  TableRows rows = {
      {"records", CountText(result.delivered.records) + PassesText(plan) + ", " +
                      BytesText(result.delivered.payload_bytes)},
      {plan.batched() ? "batches" : "blocks", CountText(result.batches)},
      {"speed", SpeedText(result) + (report.digests ? " (digests included)" : "")},
      {"first batch", FixedText(1000 * result.first_batch_s, 1) + " ms after the first call"},
      {"memory", ArenaText(result)}};
  const double read_per_byte = result.stats.read_per_byte;
  rows.push_back({"read", BytesText(result.stats.read_bytes) +
                              (read_per_byte == 0 ? ""
                                                  : ", " + FixedText(read_per_byte, 2) +
                                                        " bytes for each byte of the records")});
  rows.push_back({"files", FilesText(result.stats)});
  for (auto& row : OrderRows(result.stats)) rows.push_back(std::move(row));
  for (auto& row : IoRows(result.stats.io)) rows.push_back(std::move(row));
  if (result.stats.remote.requests > 0 || result.stats.remote.cached_bytes > 0)
    rows.push_back({"store", RemoteText(result.stats.remote)});
  for (auto& row : DamageRows(result.stats)) rows.push_back(std::move(row));
  for (auto& row : WarningRows(result.stats)) rows.push_back(std::move(row));
  rows.push_back({"late wakes", LateWakesText(result.stats.late_wakes)});
  if (report.digests) {
    rows.push_back({"order digest", report.order_digest});
    rows.push_back({"multiset", report.multiset});
  }
  if (report.check) {
    rows.push_back({"delivered", (report.check->exact ? "" : "WRONG: ") + report.check->what});
  }
  if (result.interrupted) rows.push_back({"interrupted", "this is the report so far"});
  // Failures are told after the report, on standard error.
  if (!result.status.ok()) rows.push_back({"failed", "this is the report so far"});
  return rows;
}

// Appends it to `json`.
void AddDeviceReport(const DeviceReport& report, Json* json) {
  Json list = Json::array();
  for (const DeviceResult& device : report.devices) {
    const DeviceFeedStats& stats = device.stats;
    list.push_back({{"device", stats.device},
                    {"kind", report.kind},
                    {"batches", stats.batches},
                    {"stall_fraction", JsonOf(StallOf(device.times))},
                    {"overlap_fraction", JsonOf(device.overlap)},
                    {"copied_bytes", stats.copied_bytes},
                    {"delivered_bytes", stats.delivered_bytes},
                    {"transfer", std::string(TransferPlanName(stats.transfer))},
                    {"transfer_reason", stats.transfer_reason},
                    {"direct_bytes", stats.direct_bytes},
                    {"member_bytes", stats.member_bytes},
                    {"slab_bytes", stats.slab_bytes},
                    {"packed_bytes", stats.packed_bytes},
                    {"unpinned_bytes", stats.unpinned_bytes},
                    {"copied_back_bytes", device.back.bytes},
                    {"copied_back_unpinned_bytes", device.back.unpinned_bytes},
                    {"copied_back_unpinned_reason", device.back.unpinned_reason},
                    {"copied_back_memory_bytes", device.back.memory_bytes},
                    {"slots", stats.slots},
                    {"grown_slots", stats.grown_slots}});
  }
  (*json)["devices"] = std::move(list);
  (*json)["devices_reason"] = report.reason;
  (*json)["rows_left_out"] = report.dropped_rows;
  (*json)["rows_repeated"] = report.repeated_rows;
  (*json)["pinning"] = report.pinning;
  (*json)["hazards"] = report.hazards ? Json(report.hazards->size()) : Json(nullptr);
}

std::string CopiedBackText(const CopiedBack& back) {
  std::string text =
      BytesText(back.bytes) + " copied back through " + BytesText(back.memory_bytes) + " of memory";
  if (back.unpinned_bytes > 0) {
    text += ", " + BytesText(back.unpinned_bytes) +
            " of it to such that is not pinned: " + back.unpinned_reason;
  }
  return text + "\n";
}

// A table of the devices, and a line for each unusual fact.
std::string DeviceReportText(const DeviceReport& report) {
  TableRows rows = {{"device", "batches", "stall", "overlap", "copied", "slots", "grown"}};
  std::string text;
  for (const DeviceResult& device : report.devices) {
    const DeviceFeedStats& stats = device.stats;
    rows.push_back({report.kind + ":" + std::to_string(stats.device), CountText(stats.batches),
                    PercentText(StallOf(device.times)), PercentText(device.overlap),
                    BytesText(stats.copied_bytes), CountText(stats.slots),
                    CountText(stats.grown_slots)});
    if (stats.unpinned_bytes > 0) {
      text += rows.back()[0] + ": " + BytesText(stats.unpinned_bytes) +
              " came from memory that is not pinned: " + report.pinning + "\n";
    }
    if (device.back.bytes > 0) text += rows.back()[0] + ": " + CopiedBackText(device.back);
  }
  if (!report.reason.empty()) text += "devices: " + report.reason + "\n";
  if (report.dropped_rows > 0) {
    text += "rows left out by the last step: " + CountText(report.dropped_rows) + "\n";
  }
  if (report.repeated_rows > 0) {
    text += "rows repeated for the last step: " + CountText(report.repeated_rows) + "\n";
  }
  if (report.hazards) {
    text += "hazards: " + CountText(report.hazards->size()) + "\n";
    for (std::size_t h = 0; h < report.hazards->size() && h < kHazardsShown; ++h) {
      text += "  " + (*report.hazards)[h] + "\n";
    }
  }
  return TableText(rows) + text;
}

}  // namespace

Json FeedReportJson(const FeedPlan& plan, const FeedReport& report) {
  const FeedResult& result = report.result;
  const PipelineStats& stats = result.stats;
  Json json = {{"records", result.delivered.records},
               {"payload_bytes", result.delivered.payload_bytes},
               {"batches", result.batches},
               {"passes", plan.passes},
               {"passes_ended", stats.passes_ended},
               {"interrupted", result.interrupted},
               {"wall_s", result.wall_s},
               {"cpu_s", result.cpu_s},
               {"gb_per_s", PerSecond(GigaBytes(result), result.wall_s)},
               {"cpu_s_per_gb", PerSecond(result.cpu_s, GigaBytes(result))},
               {"first_batch_ms", 1000 * result.first_batch_s},
               {"peak_rss_bytes", result.peak_rss_bytes},
               {"arena_bytes", stats.arena_bytes},
               {"arena_peak_bytes", stats.arena_peak_bytes},
               {"pages", stats.pages},
               {"read_bytes", stats.read_bytes},
               {"read_per_byte", stats.read_per_byte},
               {"dropped_records", stats.dropped_records},
               {"filtered_records", stats.filtered_records},
               {"late_wakes", stats.late_wakes},
               {"damaged_records", stats.damaged_records},
               {"lost_ranges", stats.lost_ranges},
               {"files_read", stats.files_read},
               {"files_refused", stats.files_refused},
               {"files_missing", stats.files_missing},
               {"damaged", DamageJson(stats.damage)},
               {"warnings", WarningsJson(stats.warnings)},
               {"io", IoJson(stats.io)},
               {"remote", RemoteJson(stats.remote)},
               {"stages", StagesJson(stats.stages)},
               {"bottleneck", stats.bottleneck},
               {"advice", stats.advice},
               {"digests", report.digests},
               {"order_digest", nullptr},
               {"multiset", nullptr},
               {"verified", CheckJson(report.check)}};
  AddOrderReport(plan, result, &json);
  if (report.digests) {
    json["order_digest"] = report.order_digest;
    json["multiset"] = report.multiset;
  }
  if (report.check) json["verified_by"] = report.check->what;
  if (report.devices) AddDeviceReport(*report.devices, &json);
  if (!result.status.ok()) json["error"] = result.status.ToString();
  return json;
}

std::string FeedReportText(const FeedPlan& plan, const FeedReport& report) {
  const std::string stages = StageTable(report.result.stats);
  std::string text;
  for (const auto& row : SummaryRows(plan, report)) {
    text += row[0] + std::string(14 - row[0].size(), ' ') + row[1] + "\n";
  }
  if (!stages.empty()) text += "\n" + stages;
  if (report.devices) text += "\n" + DeviceReportText(*report.devices);
  const std::string& advice = report.result.stats.advice;
  if (!advice.empty()) text += "\n" + advice + "\n";
  return text;
}

}  // namespace ringfeed::tools
