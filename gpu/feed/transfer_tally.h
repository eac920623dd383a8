#pragma once

#include <atomic>
#include <cstdint>

#include "gpu/feed/lane_options.h"
#include "ringfeed/device_feed.h"

namespace ringfeed {

class CopyPlan;

/// Counts how the bytes of batches came to a device, and tells the way that most of them came. One
/// thread notes, any thread reads: no decision depends on it.
class TransferTally {
 public:
  void NotePlan(const CopyPlan& plan);
  void NoteCopied(std::uint64_t bytes) { Add(&copied_bytes_, bytes); }
  /// Of these, by blocking copies.
  void NoteUnpinned(std::uint64_t bytes) { Add(&unpinned_bytes_, bytes); }
  /// The CPU brought them to staging memory.
  void NotePacked(std::uint64_t bytes) { Add(&packed_bytes_, bytes); }

  /// `stats->delivered_bytes` is set.
  void AddTo(const LaneOptions& options, DeviceFeedStats* stats) const;

 private:
  static void Add(std::atomic<std::uint64_t>* to, std::uint64_t bytes) {
    to->fetch_add(bytes, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> copied_bytes_{0};
  std::atomic<std::uint64_t> unpinned_bytes_{0};
  std::atomic<std::uint64_t> packed_bytes_{0};
  std::atomic<std::uint64_t> member_bytes_{0};
  std::atomic<std::uint64_t> slab_bytes_{0};
  std::atomic<std::uint64_t> direct_bytes_{0};
};

}  // namespace ringfeed
