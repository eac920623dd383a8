#include "tools/feed/device_report.h"

#include <utility>

#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kHazardsShown = 5;

// Of the loop's time; none where there was no batch.
std::optional<double> StallOf(const DeviceLoopTimes& times) {
  const std::int64_t wall_ns = times.end_ns - times.begin_ns;
  if (wall_ns <= 0) return std::nullopt;
  return static_cast<double>(times.stall_ns) / static_cast<double>(wall_ns);
}

Json JsonOf(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::string PercentText(const std::optional<double>& part) {
  return part ? FixedText(100 * *part, 1) + " %" : "-";
}

}  // namespace

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
                    {"packed_bytes", stats.packed_bytes},
                    {"unpinned_bytes", stats.unpinned_bytes},
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

std::string DeviceReportText(const DeviceReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"device", "batches", "stall", "overlap", "copied", "slots", "grown"}};
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

}  // namespace ringfeed::tools
