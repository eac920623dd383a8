#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed::tools {

/// The writer of a trace, and the time of its time 0.
struct TraceHeader {
  std::string host;
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  std::int64_t start_realtime_ns = 0;  ///< since 1970, by the clock of that host
};

/// A row of a trace: one kind of spans of a device or of the reader.
struct TraceRow {
  std::int64_t process = 0;
  std::int64_t thread = 0;
  std::string name;  ///< "device 0 copy"
};

/// A span of a trace.
struct TraceEvent {
  std::string name;      ///< "copy 17"
  std::string category;  ///< "copy"
  std::int64_t process = 0;
  std::int64_t thread = 0;
  std::int64_t begin_ns = 0;  ///< since 1970
  std::int64_t duration_ns = 0;
};

/// Reads what `ringfeed feed --trace` wrote, event by event: only one line of the file is in
/// memory, however long the file is. Anything else is kDamaged, with file and line: another
/// program's trace, a file that was cut off, impossible numbers, events that are not in the order
/// of time.
///
/// For one thread.
class TraceFile {
 public:
  static constexpr std::size_t kMostLineBytes = 4096;
  static constexpr std::size_t kMostRows = 65'536;

  explicit TraceFile(std::string path) : path_(std::move(path)) {}

  /// Reads up to the first span.
  Status Open();
  const TraceHeader& header() const { return header_; }
  const std::vector<TraceRow>& rows() const { return rows_; }
  const std::string& path() const { return path_; }

  /// The next span; none after the last one, if the file ends as it should.
  Status Next(std::optional<TraceEvent>* event);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };

  Status NextLine(std::string* line);
  Status ReadHeader();
  /// A line of the list; empty at its end, after which nothing may follow.
  Status NextEntry(std::string* entry);
  Status Damaged(const std::string& what) const;

  const std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;  ///< null: at its end
  std::uint64_t line_ = 0;
  std::uint64_t entries_ = 0;
  TraceHeader header_;
  std::vector<TraceRow> rows_;
  std::string first_span_;  ///< read by Open
  bool expects_more_ = true;
  std::int64_t last_begin_ns_ = 0;
};

}  // namespace ringfeed::tools
