#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/bench_data.h"
#include "bench/side_by_side.h"
#include "ringfeed/reader.h"

namespace ringfeed::bench {

/// Order and I/O path of a chain that is measured.
struct ChainOrder {
  std::size_t cycle = 8;
  std::size_t window = 0;  ///< of the shuffle; 0: none
  int threads = 1;         ///< that read, frame and write, and bare loops side by side
};

/// A figure of the table: a chain of ringfeed's beside a bare loop that does the same work.
struct FeedRow {
  std::string name;
  /// Told apart from the others of `name` by what of a run is compared.
  enum class Measure {
    kBytesPerCpuSecond,
    kRowsPerCpuSecond,
    kBytesPerSecond,
    kRowsPerSecond
  } measure;
  std::string work;  ///< rows of the same work share a run of it
};

/// One kind of work over one set of files.
struct FeedWork {
  std::string name;
  std::function<BenchFiles()> files;  ///< made when first needed
  std::size_t batch_rows = 0;
  bool blocks = false;  ///< delivers blocks of records, not batches
  ChainOrder order;     ///< of the timed chain
  /// The chain over these files, endless.
  std::function<Reader(const BenchFiles& files, const ChainOrder& order)> chain;
  BareLoopMaker bare;
};

/// All of them.
const std::vector<FeedWork>& FeedWorks();
const std::vector<FeedRow>& FeedRows();

/// Files for the rows that have no bare loop beside them.
BenchFiles FirstBatchFiles();

/// Batches of images in order, one pass, with an arena of this size (0: the process's own).
Reader ImageBatches(const BenchFiles& files, std::size_t arena_bytes);

}  // namespace ringfeed::bench
