#include "ringfeed/devices/timeline.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

/// Kinds of spans in the order that a batch passes them; others follow.
int RowOf(std::string_view what) {
  static constexpr std::array<std::string_view, 5> kRows = {"read", "copy", "wait", "lease",
                                                            "step"};
  return static_cast<int>(std::find(kRows.begin(), kRows.end(), what) - kRows.begin());
}

std::string NameEvent(const char* kind, int track, int row, const std::string& name) {
  return std::string("{\"ph\": \"M\", \"name\": \"") + kind +
         "\", \"pid\": " + std::to_string(track + 1) + ", \"tid\": " + std::to_string(row) +
         ", \"args\": {\"name\": \"" + name + "\"}}";
}

// A host's name has letters, digits, dots and hyphens; other characters need no quoting here.
std::string HostText(const std::string& host) {
  std::string text;
  for (const char c : host.substr(0, 64)) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
    text += plain ? c : '?';
  }
  return text;
}

std::string OriginText(const TimelineOrigin& origin, std::int64_t start_ns) {
  return "\"otherData\": {\"host\": \"" + HostText(origin.host) +
         "\", \"rank\": " + std::to_string(origin.rank) +
         ", \"ranks\": " + std::to_string(origin.ranks) +
         ", \"start_realtime_ns\": " + std::to_string(start_ns + origin.realtime_offset_ns) + "}, ";
}

std::string SpanEvent(const TimeSpan& span, std::int64_t start_ns) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                "{\"ph\": \"X\", \"name\": \"%s %llu\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, "
                "\"ts\": %.3f, \"dur\": %.3f}",
                span.what, static_cast<unsigned long long>(span.number), span.what, span.track + 1,
                RowOf(span.what), static_cast<double>(span.begin_ns - start_ns) / 1e3,
                static_cast<double>(span.end_ns - span.begin_ns) / 1e3);
  return text.data();
}

}  // namespace

void Timeline::Add(const TimeSpan& span) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() < limit_) spans_.push_back(span);
}

std::vector<TimeSpan> Timeline::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

std::string Timeline::ToChromeTrace() const { return ChromeTrace(nullptr); }

std::string Timeline::ToChromeTrace(const TimelineOrigin& origin) const {
  return ChromeTrace(&origin);
}

std::string Timeline::ChromeTrace(const TimelineOrigin* origin) const {
  std::vector<TimeSpan> all = spans();
  std::stable_sort(all.begin(), all.end(), [](const TimeSpan& one, const TimeSpan& other) {
    return one.begin_ns < other.begin_ns;
  });
  const std::int64_t start_ns = all.empty() ? 0 : all.front().begin_ns;
  std::set<int> tracks;
  std::set<std::pair<int, std::string>> rows;
  for (const TimeSpan& span : all) {
    tracks.insert(span.track);
    rows.emplace(span.track, span.what);
  }
  std::string events;
  const auto add = [&events](const std::string& event) {
    events += (events.empty() ? "\n" : ",\n") + event;
  };
  // A process for the reader and for each device, a thread for each kind of span.
  for (const int track : tracks) {
    const std::string name = track < 0 ? "reader" : "device " + std::to_string(track);
    add(NameEvent("process_name", track, 0, name));
  }
  for (const auto& [track, what] : rows) add(NameEvent("thread_name", track, RowOf(what), what));
  for (const TimeSpan& span : all) add(SpanEvent(span, start_ns));
  const std::string other = origin == nullptr ? "" : OriginText(*origin, start_ns);
  return "{\"displayTimeUnit\": \"ms\", " + other + "\"traceEvents\": [" + events + "\n]}\n";
}

}  // namespace ringfeed
