#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/loop_result.h"

namespace ringfeed::bench {

/// Where a row stands.
struct RowPlace {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
};

/// The rows of files of rows of one size, nothing around them, in the order of a pass of a global
/// shuffle. What a loop is given before its time is taken.
std::vector<RowPlace> GlobalPlaces(const std::vector<std::string>& files, std::size_t row_bytes,
                                   std::uint64_t seed, std::uint32_t epoch);

/// Files that stay mapped, every page of them touched.
class MappedFiles {
 public:
  explicit MappedFiles(const std::vector<std::string>& paths);
  ~MappedFiles();
  MappedFiles(const MappedFiles&) = delete;
  MappedFiles& operator=(const MappedFiles&) = delete;

  const std::byte* at(RowPlace place) const { return files_[place.file].data() + place.offset; }

 private:
  std::vector<std::span<const std::byte>> files_;
};

/// Bare loops over rows at places that are known beforehand: one thread, kRotatingBatches batches
/// in huge pages, no engine around it. Opening and mapping are not part of the time.

/// Rows of `row_bytes`, each by a pread straight to its place in the batch.
LoopResult BareReadGather(const std::vector<std::string>& files, std::size_t row_bytes,
                          std::span<const RowPlace> places, const LoopOptions& options);

/// Rows of 160 bytes (13 float32, 26 int32, one int32) of mapped files into three columns; the rows
/// that come next are fetched ahead.
LoopResult BareRowGather(const MappedFiles& files, std::span<const RowPlace> places,
                         const LoopOptions& options);

/// Rows of `row_bytes` of mapped files, each by a memcpy to its place in the batch.
LoopResult BareCopyGather(const MappedFiles& files, std::size_t row_bytes,
                          std::span<const RowPlace> places, const LoopOptions& options);

}  // namespace ringfeed::bench
