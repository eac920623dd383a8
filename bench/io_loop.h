#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/memory/arena.h"

namespace ringfeed::bench {

/// A way of reading a whole file from its start to its end.
enum class IoMethod {
  kBarePread,  ///< pread of a block at a time, nothing of ringfeed's
  kInline,     ///< ringfeed's engines
  kPool,
  kUring,
  kMmap,  ///< mapped by ringfeed, kept mapped
};

struct IoLoopOptions {
  IoMethod method = IoMethod::kBarePread;
  std::size_t block_bytes = std::size_t{512} << 10;
  std::size_t blocks_in_flight = 8;
  bool digest = true;  ///< take the checksum of each block as it arrives
};

/// What one reading took and gave.
struct IoFigures {
  double cpu_s = 0;  ///< of the whole process
  double wall_s = 0;
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;  ///< the same for the same bytes, in whatever order they came
  std::string failure;       ///< empty where all went well
};

/// Reads `path` once. Buffers come from `arena`; opening is not part of the time.
IoFigures ReadFile(const std::string& path, const IoLoopOptions& options,
                   const std::shared_ptr<Arena>& arena);

/// Whether the program `fio` can be run here.
bool HasFio();

/// What fio reads, and how.
struct FioOptions {
  std::vector<std::string> paths;
  std::size_t block_bytes = std::size_t{512} << 10;
  std::size_t blocks_in_flight = 8;
  /// Each block of the files once, in an order drawn over all of them; else one file behind the
  /// other, from start to end.
  bool random = false;
  /// So many reads are submitted by one system call, and as many taken where they have ended.
  std::size_t blocks_per_call = 1;
};

/// fio reading files with O_DIRECT through io_uring: one job, registered files, fixed buffers in
/// huge pages (explicit ones where the system has some set aside, else transparent ones by way of
/// malloc, aligned so that they fit). The time is what fio reports for its job, without its start.
IoFigures RunFio(const FioOptions& options);

}  // namespace ringfeed::bench
