#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/loop_result.h"

namespace ringfeed::bench {

/// A bare loop over files that it was given before, once each time it is called.
using BareLoop = std::function<LoopResult(const LoopOptions& options)>;
/// Makes one over these files. What it opens or maps for all of its runs is no part of their time.
using BareLoopMaker = std::function<BareLoop(const std::vector<std::string>& files)>;

/// Loops side by side, each over its share of the files on a thread of its own: what n threads of a
/// chain are held against.
class SideBySide {
 public:
  /// Shares that have no file have no loop.
  SideBySide(const BareLoopMaker& make, const std::vector<std::string>& files, int threads);

  /// One pass of all of them. CPU seconds, records and bytes are those of all together; by the
  /// clock it takes as long as the slowest. The digest is that of one loop, 0 where there are more.
  LoopResult Run(const LoopOptions& options) const;

 private:
  std::vector<BareLoop> loops_;
};

}  // namespace ringfeed::bench
