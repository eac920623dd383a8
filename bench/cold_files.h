#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace ringfeed::bench {

/// Drops the files' pages. Empty, or "skipped: why" if they stay in memory. Throws Error.
std::string DropFromMemory(const std::vector<std::string>& paths);

/// Empty, or "skipped: why" if the program fio or io_uring cannot be used here.
std::string WhyNoFio();
std::string WhyNoUring();

/// What fio reads, and how.
struct FioOptions {
  std::vector<std::string> paths;
  std::size_t block_bytes = std::size_t{512} << 10;
  std::size_t blocks_in_flight = 8;
  /// Each block of the files once, in an order drawn over all of them; else one file after the
  /// other, from start to end.
  bool random = false;
  /// So many reads are submitted by one system call, and as many taken that have ended.
  std::size_t blocks_per_call = 1;
};

/// fio reading cold files with O_DIRECT through io_uring: one job, registered files, fixed buffers
/// in huge pages (explicit ones if the system has some set aside, else transparent ones by way of
/// malloc, aligned so that they fit). The time is what fio reports for its job, without its start.
LoopResult RunFio(const FioOptions& options);

}  // namespace ringfeed::bench
