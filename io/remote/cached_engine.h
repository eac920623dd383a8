#pragma once

#include <memory>

#include "io/read_engine.h"

namespace ringfeed {

/// Reads objects through their cache (RemoteReading::cache), by `engine` what is not there. A piece
/// that the cache takes is fetched as a whole, into memory of its own, and what waits for parts of
/// it is copied from there; of other pieces only the bytes that are asked for are fetched. Objects
/// without a cache go to `engine` as they are.
///
/// Bytes in the cache are read, and checked, in the thread that submits. All engines of the process
/// together have at most 16 pieces in memory.
std::unique_ptr<ReadEngine> MakeCachedEngine(std::unique_ptr<ReadEngine> engine);

}  // namespace ringfeed
