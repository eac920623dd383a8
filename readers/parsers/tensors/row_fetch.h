#pragma once

#include <cstddef>
#include <cstdint>

#include "ringfeed/record.h"

namespace ringfeed {

/// Asks for the cache lines of a row that will be parsed soon: behind a shuffle it stands anywhere.
/// A long row asks for its start only, the processor follows it by itself. Inlined by force: g++
/// takes a function that only prefetches for one without effect, and drops the call.
[[gnu::always_inline]] inline void FetchRow(const RecordSpan& row) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMost = 1024;
  const std::size_t bytes = row.size < kMost ? row.size : kMost;
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row.data + at);
  if (bytes != 0) __builtin_prefetch(row.data + bytes - 1);
}

/// The same of a row that follows another one: where it stands close behind that, the processor
/// will have fetched it.
[[gnu::always_inline]] inline void FetchRowBehind(const RecordSpan& before, const RecordSpan& row) {
  constexpr std::uintptr_t kNear = 256;
  const auto end = reinterpret_cast<std::uintptr_t>(before.data) + before.size;
  if (reinterpret_cast<std::uintptr_t>(row.data) - end < kNear) return;
  FetchRow(row);
}

}  // namespace ringfeed
