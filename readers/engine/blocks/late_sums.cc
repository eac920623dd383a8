#include "readers/engine/blocks/late_sums.h"

#include <utility>

#include "base/stream_copy.h"
#include "readers/formats/format.h"

namespace ringfeed {

LateSums::LateSums(Options options)
    : options_(std::move(options)),
      leaves_in_memory_(options_.taker_copies || SumBeside::Works()) {}

std::size_t LateSums::leaves_from() const {
  if (!options_.leaves) return FrameInput::kLeavesNone;
  return options_.taker_copies ? 0 : options_.least_bytes;
}

bool LateSums::MayLeave(const Block& block, std::uint64_t pass) const {
  // If the bytes were just copied into memory, the CPU takes the sums while they are in the cache,
  // unless a writer can take them beside its copy.
  return (leaves_in_memory_ || !block.files.empty()) && block.instances.empty() &&
         trusted_pass_.load(std::memory_order_relaxed) == pass;
}

}  // namespace ringfeed
