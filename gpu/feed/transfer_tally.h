#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "ringfeed/device_feed.h"

namespace ringfeed {

/// Counts how the bytes of batches came to a device, and tells the way that most of them came. One
/// thread adds, any thread reads: no decision depends on it.
class TransferTally {
 public:
  enum Way : std::uint8_t {
    kCopied,    ///< over the link
    kUnpinned,  ///< of these, by blocking copies
    kPacked,    ///< the CPU brought them to staging memory
    kMembers,   ///< of rows that stayed where they were read: each by itself
    kSlabs,     ///< … with its neighbours
    kDirect,    ///< … in the device's memory
  };

  void Add(Way way, std::uint64_t bytes) {
    bytes_[way].fetch_add(bytes, std::memory_order_relaxed);
  }
  /// `stats->delivered_bytes` is set. `why_left`: from which length on rows stayed, unless the CPU
  /// makes all batches.
  void AddTo(TransferPlan asked, const std::string& why_left, DeviceFeedStats* stats) const;

 private:
  std::array<std::atomic<std::uint64_t>, kDirect + 1> bytes_{};
};

}  // namespace ringfeed
