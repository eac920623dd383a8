#include "base/memory/arena.h"
#include "ringfeed/arena.h"

namespace ringfeed {

PinnedArena::PinnedArena(std::size_t bytes, bool huge_pages) {
  ArenaOptions options;
  options.bytes = bytes;
  options.huge_pages = huge_pages;
  arena_ = Arena::Create(options);
}

}  // namespace ringfeed
