#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_data.h"
#include "bench/loops.h"
#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed::bench {

/// A chain over files that is read in whole passes, again and again: what is timed starts when it
/// is warm, as in a training of several epochs.
class FeedChain {
 public:
  /// `batches` delivers batches, or blocks of records if `blocks` is set, `records` of them in
  /// each pass.
  FeedChain(Reader batches, std::uint64_t records, bool blocks);

  /// Reads one pass and takes the time and the CPU seconds of the whole process. (How many payload
  /// bytes a pass has is the caller's to know.) Throws Error if the data end before that, or fail.
  LoopResult ReadPass();
  /// Reads one pass and digests it: `digest` is of the batches in order, as BatchDigest has it.
  /// *row_sum is over the rows of the pass whatever their order.
  LoopResult DigestPass(std::uint64_t* row_sum);

 private:
  LoopResult Read(const std::function<void(const Instance&)>& on_batch,
                  const std::function<void(const RecordBlock&)>& on_block);

  Reader reader_;
  const std::uint64_t records_;
  const bool blocks_;
};

/// Order and threads of a chain that is measured.
struct ChainOrder {
  std::size_t cycle = 8;
  std::size_t window = 0;  ///< of the shuffle; 0: none
  int threads = 1;         ///< that read, frame and write, and bare loops side by side
};

/// A chain over files, endless.
using Chain = std::function<Reader(const BenchFiles& files, const ChainOrder& order)>;

/// How a chain's files are opened.
struct Source {
  IoPath path = IoPath::kAuto;
  std::string format{};           ///< empty: that of their names
  std::uint64_t global_seed = 0;  ///< of a global shuffle; 0: none
};
/// Records as they are, in blocks.
Chain Blocks();
/// Batches of what the parser makes of them.
Chain Batches(std::shared_ptr<const Parser> parser, std::size_t rows, const Source& source = {});

/// One kind of work over one set of files: a chain of ringfeed's beside bare loops.
struct FeedWork {
  std::string name;
  std::function<BenchFiles()> files;  ///< made when first needed
  std::size_t batch_rows = 0;
  bool blocks = false;  ///< delivers blocks of records, not batches
  ChainOrder order;     ///< of the timed chain
  Chain chain;
  BareLoopMaker bare;
  std::uint32_t verified_passes = 1;
};

/// The chain in whole passes, warm, beside the loop or, with several threads, as many loops side by
/// side, each over its share of the files. Verified: the batches of the first passes of a chain in
/// the order of files are those of the loop, and the timed chain delivers the same multiset.
Pair FeedPair(const FeedWork& work);

/// A loop that opens its files itself.
BareLoopMaker Opening(LoopResult (*loop)(const std::vector<std::string>& files,
                                         const LoopOptions& options));

}  // namespace ringfeed::bench
