#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ringfeed/record.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Keys stay in the order in which they were written.
using Json = nlohmann::ordered_json;

/// A list of {file, begin, end, reason}.
Json DamageJson(const std::vector<DamagedRange>& damage);
/// A list of {name, busy_s, wait_s, waits_for}.
Json StagesJson(const std::vector<StageStats>& stages);
Json WarningsJson(const std::vector<DataWarning>& warnings);

/// "uring, O_DIRECT".
std::string IoPathText(const IoChoice& choice);

/// The fields of a command's report to stdout, indented, after the version of their meaning and the
/// command's name; docs/JSON.md has all of them. Bytes of names that are no UTF-8 are replaced.
void PrintJson(const char* command, const Json& fields);

/// "1.50" for (1.5, 2).
std::string FixedText(double value, int decimals);
/// "2.00 GiB", "512 B".
std::string BytesText(std::uint64_t bytes);
/// Bytes per second in decimal units: "7.25 GB/s".
std::string RateText(double bytes_per_second);
/// "12,345,678".
std::string CountText(std::uint64_t count);

/// "a.tfrecord: skipped bytes 100 to 125: …", or, for a record that only its parser refused,
/// "a.tfrecord: skipped a record: …".
std::string SkippedText(const DamagedRange& range);

/// Reports skipped ranges on stderr, a line for each. `failure`: the run's failure, if any; its
/// range was not skipped.
void TellSkipped(const std::vector<DamagedRange>& damage, const Status& failure);

using TableRows = std::vector<std::vector<std::string>>;

/// Rows of cells as lines with aligned columns; the first column to the left, all others to the
/// right if they look like numbers. No line ends in blanks.
std::string TableText(const TableRows& rows);

}  // namespace ringfeed::tools
