#pragma once

#include <cstddef>

namespace ringfeed {

/// Prefetches the cache lines 4 KiB past these `bytes`. For a loop that reads bytes from start to
/// end and does little with each: in a mapped file the processor's own prefetcher stops at the end
/// of a page. The lines need not exist. Inlined by force: g++ thinks that a function that only
/// prefetches has no effect, and drops the call.
[[gnu::always_inline]] inline void FetchAhead(const std::byte* at, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kAhead = 4096;
  for (std::size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(at + kAhead + line);
}

}  // namespace ringfeed
