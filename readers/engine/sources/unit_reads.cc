#include "readers/engine/sources/unit_reads.h"

#include <algorithm>
#include <tuple>

namespace ringfeed {

namespace {

/// What different reads bring is apart by this much, so that a processor's line has one writer.
constexpr std::uint64_t kLine = 64;

std::uint64_t Down(std::uint64_t offset, std::uint64_t unit) { return offset / unit * unit; }
std::uint64_t Up(std::uint64_t offset, std::uint64_t unit) { return Down(offset + unit - 1, unit); }

}  // namespace

std::size_t MergeRanges(const MergeRule& rule, std::vector<NeededRange>* ranges,
                        std::vector<MergedRead>* reads) {
  std::sort(ranges->begin(), ranges->end(), [](const NeededRange& a, const NeededRange& b) {
    return std::tie(a.file, a.begin, a.owner) < std::tie(b.file, b.begin, b.owner);
  });
  const std::size_t already = reads->size();
  std::uint64_t needed = 0;  // of the last read
  for (std::size_t i = 0; i < ranges->size(); ++i) {
    const NeededRange& range = (*ranges)[i];
    const std::uint64_t begin = Down(range.begin, rule.alignment);
    const std::uint64_t end = Up(range.end, rule.alignment);
    if (reads->size() > already) {
      MergedRead& last = reads->back();
      const std::uint64_t spare = std::max(begin, last.end) - last.begin - needed;
      if (last.file == range.file && begin <= last.end + rule.gap &&
          (!rule.thrifty || begin <= last.end || spare <= needed / 4)) {
        needed += end - std::min(end, std::max(begin, last.end));
        last.end = std::max(last.end, end);
        ++last.ranges;
        continue;
      }
    }
    reads->push_back({range.file, begin, end, 0, i, 1});
    needed = end - begin;
  }
  std::uint64_t memory = 0;
  for (std::size_t i = already; i < reads->size(); ++i) {
    MergedRead& read = (*reads)[i];
    read.at = static_cast<std::size_t>(memory);
    memory += Up(read.end - read.begin, std::max<std::uint64_t>(kLine, rule.alignment));
  }
  return static_cast<std::size_t>(memory);
}

}  // namespace ringfeed
