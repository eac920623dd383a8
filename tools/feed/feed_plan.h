#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"
#include "tools/feed/hashing_parser.h"

namespace ringfeed::tools {

/// A whole chain, as `ringfeed feed` describes it by options.
struct FeedPlan {
  std::vector<std::string> files;
  OpenOptions open;
  std::string parse;        ///< as ParserFromText takes it; "": none
  std::size_t batch = 0;    ///< rows of a batch; 0: blocks of records as they were framed
  BatchOptions batching;    ///< its other options
  std::size_t shuffle = 0;  ///< rows of the window or block
  /// kOfSize: nobody said; a window where there is a size, else none.
  ShuffleMode shuffle_mode = ShuffleMode::kOfSize;
  std::uint64_t seed = 0;
  std::uint64_t passes = 1;  ///< 0: without end
  PayloadHash hash = PayloadHash::kNone;

  /// True where what is read are batches, not blocks of records.
  bool batched() const { return batch > 0; }
  /// The mode that it comes to.
  ShuffleMode mode() const {
    if (shuffle_mode != ShuffleMode::kOfSize) return shuffle_mode;
    return shuffle > 0 ? ShuffleMode::kWindow : ShuffleMode::kNone;
  }
};

/// The chain of `plan`. Throws Error where it cannot work.
Reader BuildChain(const FeedPlan& plan);

}  // namespace ringfeed::tools
