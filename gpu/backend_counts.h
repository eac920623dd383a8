#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// BackendCounters that several threads add to.
class BackendCounts {
 public:
  void Copy(std::size_t pieces, std::size_t bytes) {
    Add(&copies_, pieces);
    Add(&copied_bytes_, bytes);
  }
  void Launch() { Add(&launches_, 1); }
  void Record() { Add(&records_, 1); }
  void StreamWait() { Add(&stream_waits_, 1); }
  void Query() { Add(&queries_, 1); }
  void Sync() { Add(&syncs_, 1); }
  void Allocation() { Add(&allocations_, 1); }

  BackendCounters Read() const {
    return {.copies = Load(copies_),
            .copied_bytes = Load(copied_bytes_),
            .launches = Load(launches_),
            .records = Load(records_),
            .stream_waits = Load(stream_waits_),
            .queries = Load(queries_),
            .syncs = Load(syncs_),
            .allocations = Load(allocations_)};
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  static void Add(Count* count, std::uint64_t n) { count->fetch_add(n, std::memory_order_relaxed); }
  static std::uint64_t Load(const Count& count) { return count.load(std::memory_order_relaxed); }

  Count copies_ = 0;
  Count copied_bytes_ = 0;
  Count launches_ = 0;
  Count records_ = 0;
  Count stream_waits_ = 0;
  Count queries_ = 0;
  Count syncs_ = 0;
  Count allocations_ = 0;
};

}  // namespace ringfeed
