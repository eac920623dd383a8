#include "tools/report.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

#include "tools/command.h"

namespace ringfeed::tools {
namespace {

bool LooksLikeNumber(const std::string& cell) {
  const std::size_t first = cell.starts_with('-') ? 1 : 0;
  return cell == "-" || (first < cell.size() && cell[first] >= '0' && cell[first] <= '9');
}

void AppendCell(const std::string& cell, std::size_t width, std::string* line) {
  const std::string blanks(width - cell.size(), ' ');
  *line += LooksLikeNumber(cell) ? blanks + cell : cell + blanks;
}

}  // namespace

Json DamageJson(const std::vector<DamagedRange>& damage) {
  Json list = Json::array();
  for (const DamagedRange& range : damage) {
    list.push_back({{"file", range.file},
                    {"begin", range.begin},
                    {"end", range.end},
                    {"reason", range.reason}});
  }
  return list;
}

Json StagesJson(const std::vector<StageStats>& stages) {
  Json list = Json::array();
  for (const StageStats& stage : stages) {
    list.push_back({{"name", stage.name},
                    {"busy_s", stage.busy_s},
                    {"wait_s", stage.wait_s},
                    {"waits_for", stage.waits_for}});
  }
  return list;
}

Json WarningsJson(const std::vector<DataWarning>& warnings) {
  Json list = Json::array();
  for (const DataWarning& warning : warnings) {
    list.push_back({{"file", warning.file}, {"text", warning.text}});
  }
  return list;
}

std::string IoPathText(const IoChoice& choice) {
  return std::string(IoPathName(choice.path)) + (choice.direct ? ", O_DIRECT" : "");
}

void PrintJson(const char* command, const Json& fields) {
  constexpr int kVersion = 1;
  Json json = {{"version", kVersion}, {"command", command}};
  json.update(fields);
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  std::puts(text.c_str());
  (void)FlushOutput();  // main() reports its failure
}

std::string FixedText(double value, int decimals) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string BytesText(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return FixedText(value, unit == 0 ? 0 : 2) + " " + kUnits[unit];
}

std::string RateText(double bytes_per_second) {
  if (bytes_per_second >= 1e9) return FixedText(bytes_per_second / 1e9, 2) + " GB/s";
  return FixedText(bytes_per_second / 1e6, 1) + " MB/s";
}

std::string CountText(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, 1, ',');
  return text;
}

std::string SkippedText(const DamagedRange& range) {
  const std::string bytes =
      "bytes " + std::to_string(range.begin) + " to " + std::to_string(range.end);
  return range.file + ": skipped " + (range.end > 0 ? bytes : "a record") + ": " + range.reason;
}

void TellSkipped(const std::vector<DamagedRange>& damage, const Status& failure) {
  for (const DamagedRange& range : damage) {
    const bool is_failure = !failure.ok() && range.file == failure.place().file &&
                            static_cast<std::int64_t>(range.begin) == failure.place().offset &&
                            range.reason == failure.message();
    if (!is_failure) std::fprintf(stderr, "ringfeed: %s\n", SkippedText(range).c_str());
  }
}

std::string TableText(const TableRows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      AppendCell(row[i], widths[i], &line);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace ringfeed::tools
