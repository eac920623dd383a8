#pragma once

#include <cstddef>
#include <functional>

namespace ringfeed {

/// Calls work(0), …, work(count - 1), each once, by the caller's thread and up to `threads` - 1
/// others, which take the numbers in order. If the system has fewer threads to give, these do all
/// of it. After a call threw none begins; rethrows what was thrown first, once all others ended.
/// Blocks. `work` is called by several threads at a time; what ends calls of the caller's thread
/// (CallsEnd) ends theirs.
void ForEachInParallel(std::size_t count, std::size_t threads,
                       const std::function<void(std::size_t)>& work);

}  // namespace ringfeed
