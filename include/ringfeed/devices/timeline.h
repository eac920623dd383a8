#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace ringfeed {

/// The time that something took.
struct TimeSpan {
  const char* what = "";     ///< a literal: "read", "copy", "lease", "wait"
  int track = 0;             ///< the place of a device in a feed's list; -1: the reader
  std::uint64_t number = 0;  ///< of the batch
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// The process that made a timeline, and its time on the clock that hosts have in common, so that
/// timelines of several ranks can be aligned.
struct TimelineOrigin {
  std::string host;  ///< "": unknown
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  /// How far CLOCK_REALTIME is ahead of the clock of the spans.
  std::int64_t realtime_offset_ns = 0;
};

/// What a feed did and when, for a picture of it. Keeps the first `limit` spans. Thread safe.
class Timeline {
 public:
  explicit Timeline(std::size_t limit = 1'000'000) : limit_(limit) {}

  /// Keeps the span, unless there are `limit` already.
  void Add(const TimeSpan& span);
  /// In order of arrival.
  std::vector<TimeSpan> spans() const;
  /// In the trace event format that chrome://tracing and Perfetto read: complete events ("ph":
  /// "X") in the order of time, microseconds from the first one on, a row for each track and kind.
  std::string ToChromeTrace() const;
  /// The same, with its origin in "otherData": `ringfeed trace` merges those.
  std::string ToChromeTrace(const TimelineOrigin& origin) const;

 private:
  std::string ChromeTrace(const TimelineOrigin* origin) const;

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::vector<TimeSpan> spans_;
};

}  // namespace ringfeed
