#include "bench/side_by_side.h"

#include <algorithm>
#include <thread>

namespace ringfeed::bench {

SideBySide::SideBySide(const BareLoopMaker& make, const std::vector<std::string>& files,
                       int threads) {
  std::vector<std::vector<std::string>> shares(static_cast<std::size_t>(threads));
  for (std::size_t i = 0; i < files.size(); ++i) shares[i % shares.size()].push_back(files[i]);
  for (const auto& share : shares) {
    if (!share.empty()) loops_.push_back(make(share));
  }
}

LoopResult SideBySide::Run(const LoopOptions& options) const {
  if (loops_.size() == 1) return loops_.front()(options);
  std::vector<LoopResult> results(loops_.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = loops_[i](options); });
    }
  }
  LoopResult sum;
  for (const LoopResult& result : results) {
    sum.cpu_s += result.cpu_s;
    sum.wall_s = std::max(sum.wall_s, result.wall_s);
    sum.records += result.records;
    sum.bytes += result.bytes;
  }
  return sum;
}

}  // namespace ringfeed::bench
