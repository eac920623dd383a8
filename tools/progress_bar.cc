#include "tools/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr std::size_t kWidth = 30;
constexpr double kFirstEstimate = 0.5;  // seconds: before, the first units tell too little
constexpr double kMinutes = 120;        // seconds from which on they are told as minutes

bool StderrIsTerminal() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (!terminal || std::string_view(terminal) != "dumb");
}

// "  about 12 s left".
std::string TimeLeft(double share, double seconds) {
  if (share <= 0 || seconds < kFirstEstimate) return {};
  const double left = seconds * (1 - share) / share;
  if (left >= kMinutes) return "  about " + FixedText(left / 60, 0) + " min left";
  return "  about " + FixedText(left, 0) + " s left";
}

}  // namespace

ProgressBar::ProgressBar(std::string label, std::uint64_t total)
    : label_(std::move(label)),
      total_(total),
      shown_(StderrIsTerminal()),
      start_(std::chrono::steady_clock::now()),
      next_(start_) {}

ProgressBar::~ProgressBar() { Clear(); }

void ProgressBar::Update(std::uint64_t done, std::uint64_t bytes) {
  if (!shown_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  Draw(done, bytes, now);
}

void ProgressBar::Draw(std::uint64_t done, std::uint64_t bytes,
                       std::chrono::steady_clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string line = "\r\033[K" + label_;
  if (total_ > 0) {
    const std::uint64_t shown = std::min(done, total_);
    const auto share = static_cast<double>(shown) / static_cast<double>(total_);
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
    line += " [" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "] " +
            FixedText(100 * share, 0) + " %" + TimeLeft(share, seconds);
  }
  if (bytes > 0 || total_ == 0) line += "  " + BytesText(bytes);
  if (bytes > 0 && seconds > 0) line += "  " + RateText(static_cast<double>(bytes) / seconds);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::Clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace ringfeed::tools
