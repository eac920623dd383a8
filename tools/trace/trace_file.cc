#include "tools/trace/trace_file.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <string_view>
#include <utility>

#include "base/strict_json.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

// No trace has larger numbers: sums of these do not overflow.
constexpr std::int64_t kMostId = 999'999;
constexpr std::int64_t kMostRealtimeNs = 4'000'000'000'000'000'000;  // in the year 2096
constexpr double kMostMicros = 1e15;                                 // 31 years
constexpr std::size_t kMostNameBytes = 256;

std::optional<std::string> TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  auto text = found->get<std::string>();
  if (text.size() > kMostNameBytes) return std::nullopt;
  return text;
}

// From 0 to `most`.
std::optional<std::int64_t> NumberOf(const Json& object, const char* key, std::int64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto number = found->get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(most)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// Microseconds from 0 on, as nanoseconds.
std::optional<std::int64_t> NanosOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto micros = found->get<double>();
  if (!(micros >= 0 && micros <= kMostMicros)) return std::nullopt;
  return std::llround(micros * 1e3);
}

// If the text is no object, nothing can be found in the result.
Json Parsed(const std::string& text) {
  try {
    Json json = ParseStrictJson(text);
    if (json.is_object()) return json;
  } catch (const std::exception&) {  // not an entry of ours
  }
  return Json::object();
}

std::optional<TraceHeader> HeaderOf(const Json& json) {
  const auto other = json.find("otherData");
  if (other == json.end() || !other->is_object()) return std::nullopt;
  const auto host = TextOf(*other, "host");
  const auto rank = NumberOf(*other, "rank", kMostId);
  const auto ranks = NumberOf(*other, "ranks", kMostId);
  const auto start = NumberOf(*other, "start_realtime_ns", kMostRealtimeNs);
  if (!host || !rank || !ranks || !start || *rank >= *ranks) return std::nullopt;
  // Only characters that a timeline writes: the name is printed to a terminal.
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_?";
  if (host->find_first_not_of(kPlain) != std::string::npos) return std::nullopt;
  return TraceHeader{*host, static_cast<std::uint64_t>(*rank), static_cast<std::uint64_t>(*ranks),
                     *start};
}

/// The name of a process or a thread of a trace.
struct TraceName {
  std::string kind;
  TraceRow row;
};

std::optional<TraceName> NameOf(const Json& json) {
  const auto kind = TextOf(json, "name");
  const auto process = NumberOf(json, "pid", kMostId);
  const auto thread = NumberOf(json, "tid", kMostId);
  const auto args = json.find("args");
  if (!kind || !process || !thread || args == json.end() || !args->is_object()) return std::nullopt;
  auto name = TextOf(*args, "name");
  if (!name) return std::nullopt;
  return TraceName{*kind, {*process, *thread, *std::move(name)}};
}

std::optional<TraceEvent> SpanOf(const Json& json) {
  auto name = TextOf(json, "name");
  auto category = TextOf(json, "cat");
  const auto process = NumberOf(json, "pid", kMostId);
  const auto thread = NumberOf(json, "tid", kMostId);
  const auto begin = NanosOf(json, "ts");
  const auto duration = NanosOf(json, "dur");
  if (!name || !category || !process || !thread || !begin || !duration) return std::nullopt;
  return TraceEvent{*std::move(name), *std::move(category), *process, *thread, *begin, *duration};
}

}  // namespace

Status TraceFile::Damaged(const std::string& what) const {
  return Status(StatusCode::kDamaged, path_ + " line " + std::to_string(line_) + ": " + what);
}

Status TraceFile::NextLine(std::string* line) {
  std::array<char, kMostLineBytes> bytes{};
  ++line_;
  errno = 0;
  if (std::fgets(bytes.data(), static_cast<int>(bytes.size()), file_.get()) == nullptr) {
    if (std::ferror(file_.get()) != 0) return StatusFromErrno(errno, path_);
    return Damaged("the file ends in the middle: it was cut off");
  }
  *line = bytes.data();
  if (!line->ends_with('\n')) return Damaged("the line is longer than any of a trace, or cut off");
  line->pop_back();
  return {};
}

Status TraceFile::ReadHeader() {
  std::string line;
  if (Status status = NextLine(&line); !status.ok()) return status;
  constexpr std::string_view kListBegins = "\"traceEvents\": [";
  if (line.starts_with("{") && line.ends_with(kListBegins)) {
    line += "]}";
    if (auto header = HeaderOf(Parsed(line))) {
      header_ = *std::move(header);
      return {};
    }
  }
  return Damaged(
      "no trace that says whose it is and when it began: such as `ringfeed feed --trace` writes "
      "since version 0.2");
}

Status TraceFile::NextEntry(std::string* entry) {
  if (Status status = NextLine(entry); !status.ok()) return status;
  if (*entry == "]}") {
    if (std::fgetc(file_.get()) != EOF) return Damaged("something stands behind the end");
    if (entries_ > 0 && expects_more_) return Damaged("the list ends after a comma");
    entry->clear();
    file_.reset();
    return {};
  }
  if (!expects_more_) return Damaged("the list goes on after its last entry");
  ++entries_;
  expects_more_ = entry->ends_with(',');
  if (expects_more_) entry->pop_back();
  if (entry->empty()) return Damaged("an empty line");
  return {};
}

Status TraceFile::Open() {
  file_.reset(std::fopen(path_.c_str(), "re"));
  if (file_ == nullptr) return StatusFromErrno(errno, path_);
  if (Status status = ReadHeader(); !status.ok()) return status;
  std::map<std::int64_t, std::string> processes;
  for (;;) {
    std::string entry;
    if (Status status = NextEntry(&entry); !status.ok()) return status;
    const Json json = Parsed(entry);
    if (entry.empty() || TextOf(json, "ph") != "M") {
      first_span_ = std::move(entry);
      break;
    }
    auto named = NameOf(json);
    if (!named) return Damaged("an entry that names nothing");
    if (named->kind == "process_name") processes[named->row.process] = named->row.name;
    if (named->kind == "thread_name") rows_.push_back(std::move(named->row));
    if (rows_.size() + processes.size() > kMostRows) return Damaged("too many rows");
  }
  for (TraceRow& row : rows_) row.name = processes[row.process] + " " + row.name;
  return {};
}

Status TraceFile::Next(std::optional<TraceEvent>* event) {
  event->reset();
  std::string entry = std::exchange(first_span_, {});
  if (entry.empty() && file_ != nullptr) {
    if (Status status = NextEntry(&entry); !status.ok()) return status;
  }
  if (entry.empty()) return {};
  const Json json = Parsed(entry);
  if (TextOf(json, "ph") == "X") *event = SpanOf(json);
  if (!*event) return Damaged("no span of a trace");
  if ((*event)->begin_ns < last_begin_ns_) return Damaged("it began before the one before it");
  last_begin_ns_ = (*event)->begin_ns;
  (*event)->begin_ns += header_.start_realtime_ns;
  return {};
}

}  // namespace ringfeed::tools
