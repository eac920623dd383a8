#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ringfeed::tools {

/// A line on stderr that is redrawn in place a few times a second if stderr is a terminal;
/// otherwise nothing. One thread at a time.
class ProgressBar {
 public:
  /// `total` units are expected, 0: unknown.
  ProgressBar(std::string label, std::uint64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// True if it is shown at all; else a caller need not count.
  bool shown() const { return shown_; }
  /// `done` units so far; `bytes` of data for the rate, 0: none is shown. If a total is expected
  /// the time left is shown too, as if all units took equally long. Cheap enough for every batch.
  void Update(std::uint64_t done, std::uint64_t bytes);
  /// Takes the line off the terminal.
  void Clear();

 private:
  void Draw(std::uint64_t done, std::uint64_t bytes, std::chrono::steady_clock::time_point now);

  const std::string label_;
  const std::uint64_t total_;
  const bool shown_;
  bool drawn_ = false;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace ringfeed::tools
