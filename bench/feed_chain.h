#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/loop_result.h"
#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed::bench {

/// A chain over files that is read in whole passes, again and again: what is timed starts when it
/// is warm, as in a training of several epochs.
class FeedChain {
 public:
  /// `batches` delivers batches, or blocks of records where `blocks` is set, `records` of them in
  /// each of endless passes.
  FeedChain(Reader batches, std::uint64_t records, bool blocks);

  /// Reads one pass and takes the time and the CPU seconds of the whole process. (How many payload
  /// bytes a pass has is the caller's to know.) Throws Error where the data end before that, or
  /// fail.
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

}  // namespace ringfeed::bench
