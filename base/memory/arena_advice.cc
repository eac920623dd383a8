#include "base/memory/arena_advice.h"

namespace ringfeed {

std::string NoMemoryFor(const std::string& thing) {
  return "no memory for " + thing + "; raise the arena (RINGFEED_ARENA_BYTES)";
}

std::string NoRunOf(std::size_t bytes, const Arena& arena, const std::string& lower) {
  return "no " + std::to_string(bytes) + " contiguous bytes left in the pinned arena of " +
         std::to_string(arena.bytes()) + "; raise its size (RINGFEED_ARENA_BYTES), or lower " +
         lower;
}

}  // namespace ringfeed
