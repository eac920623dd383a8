#include "readers/chain/live_chains.h"

#include "base/per_process.h"

namespace ringfeed {

LiveList<ChainCounts>& LiveChains() {
  static constinit PerProcess<LiveList<ChainCounts>> chains;
  return chains.Get();
}

std::string FirstSource(const SourceNode& source) {
  if (!source.names.empty()) return source.names.front();
  if (!source.streams.empty()) return source.streams.front().stream->name();
  if (source.mix != nullptr && !source.mix->sets.empty()) {
    return FirstSource(source.mix->sets.front().source);
  }
  return source.records != nullptr ? source.records->name() : "a reader";
}

}  // namespace ringfeed
