#include "tools/feed/copy_overlap.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ringfeed::tools {
namespace {

using Stretch = std::pair<std::int64_t, std::int64_t>;

// In order; a stream's spans do not overlap each other.
std::vector<Stretch> StretchesOf(std::span<const TimeSpan> spans, int track,
                                 std::string_view what) {
  std::vector<Stretch> stretches;
  for (const TimeSpan& span : spans) {
    if (span.track == track && span.what == what) {
      stretches.emplace_back(span.begin_ns, span.end_ns);
    }
  }
  std::sort(stretches.begin(), stretches.end());
  return stretches;
}

}  // namespace

std::optional<double> CopyOverlap(std::span<const TimeSpan> spans, int track) {
  const std::vector<Stretch> copies = StretchesOf(spans, track, "copy");
  const std::vector<Stretch> steps = StretchesOf(spans, track, "step");
  std::int64_t copied_ns = 0;
  std::int64_t both_ns = 0;
  auto step = steps.begin();
  for (const auto& [begin, end] : copies) {
    copied_ns += end - begin;
    while (step != steps.end() && step->second <= begin) ++step;
    for (auto at = step; at != steps.end() && at->first < end; ++at) {
      both_ns += std::max<std::int64_t>(0, std::min(end, at->second) - std::max(begin, at->first));
    }
  }
  if (steps.empty() || copied_ns == 0) return std::nullopt;
  return static_cast<double>(both_ns) / static_cast<double>(copied_ns);
}

}  // namespace ringfeed::tools
