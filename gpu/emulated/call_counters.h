#pragma once

#include <atomic>
#include <cstdint>

#include "ringfeed/device_backend.h"

namespace ringfeed {

/// BackendCounters of many threads; relaxed, for reports.
struct CallCounters {
  std::atomic<std::uint64_t> copies = 0;
  std::atomic<std::uint64_t> copied_bytes = 0;
  std::atomic<std::uint64_t> launches = 0;
  std::atomic<std::uint64_t> records = 0;
  std::atomic<std::uint64_t> stream_waits = 0;
  std::atomic<std::uint64_t> queries = 0;
  std::atomic<std::uint64_t> syncs = 0;
  std::atomic<std::uint64_t> allocations = 0;

  static void Add(std::atomic<std::uint64_t>& counter, std::uint64_t count = 1) {
    counter.fetch_add(count, std::memory_order_relaxed);
  }
  BackendCounters Read() const {
    const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
    return {.copies = read(copies),
            .copied_bytes = read(copied_bytes),
            .launches = read(launches),
            .records = read(records),
            .stream_waits = read(stream_waits),
            .queries = read(queries),
            .syncs = read(syncs),
            .allocations = read(allocations)};
  }
};

}  // namespace ringfeed
