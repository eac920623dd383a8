#pragma once

#include <cstddef>

namespace ringfeed {

/// Asks for the cache lines that stand 4 KiB behind these `bytes`: for who goes over bytes from
/// their start to their end and does little with each. Of a mapped file the processor follows the
/// lines by itself to the end of a page only. What is asked for need not exist. Inlined by force:
/// g++ takes a function that only prefetches for one without effect, and drops the call.
[[gnu::always_inline]] inline void FetchAhead(const std::byte* at, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kAhead = 4096;
  for (std::size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(at + kAhead + line);
}

}  // namespace ringfeed
