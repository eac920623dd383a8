#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringfeed {

/// Bytes of a file that somebody needs.
struct NeededRange {
  std::uint32_t file = 0;
  std::uint32_t owner = 0;  ///< whose they are: the caller's number
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// One read that serves needed ranges which stand close to each other.
struct MergedRead {
  std::uint32_t file = 0;
  std::uint64_t begin = 0;  ///< aligned, and so is the end
  std::uint64_t end = 0;
  std::size_t at = 0;           ///< place of `begin` in the memory of all reads, aligned
  std::size_t first_range = 0;  ///< that it serves, in the sorted ranges
  std::size_t ranges = 0;
};

/// How ranges are merged.
struct MergeRule {
  std::uint32_t alignment = 1;  ///< of offsets, sizes and places in memory
  std::uint64_t gap = 0;        ///< so many bytes that nobody needs are read along
  /// And of these no more than a quarter of what is needed: for what is read again and again.
  bool thrifty = false;
};

/// Sorts `ranges` by file and offset and merges those that overlap, or have no more than the gap
/// between them. Appends the reads, by file and offset; returns the bytes of memory that they take.
std::size_t MergeRanges(const MergeRule& rule, std::vector<NeededRange>* ranges,
                        std::vector<MergedRead>* reads);

}  // namespace ringfeed
