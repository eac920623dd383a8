#include "readers/engine/blocks/late_sums.h"

#include <algorithm>
#include <utility>

#include "base/stream_copy.h"

namespace ringfeed {

LateSums::LateSums(Options options)
    : options_(std::move(options)), a_writer_can_(SumBeside::Works()) {}

std::size_t LateSums::leaves_from(bool cold) const {
  if (!options_.leaves) return FrameInput::kLeavesNone;
  return TakerCopies(cold) ? std::min(options_.taker_bytes, options_.least_bytes)
                           : options_.least_bytes;
}

bool LateSums::MayLeave(const Block& block, std::uint64_t pass) const {
  // If the bytes were just copied into memory, the CPU takes the sums while they are in the cache,
  // unless a writer can take them beside its copy.
  return (leaves_in_memory(block.cold) || !block.files.empty()) && block.instances.empty() &&
         trusted_pass_.load(std::memory_order_relaxed) == pass;
}

}  // namespace ringfeed
