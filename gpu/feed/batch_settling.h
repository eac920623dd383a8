#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/feed/device_slot.h"
#include "readers/chain/unsettled_batch.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Settles the batches of a device that came unsettled, in their order, before their leases: the
/// device computes their sums, the host combines them. All that comes after a batch that waits, for
/// that or for the stage, waits too. For one thread, except for the counts.
class BatchSettling {
 public:
  BatchSettling(std::shared_ptr<DeviceBackend> backend, std::span<DeviceSlot> slots)
      : backend_(std::move(backend)), slots_(slots) {}

  /// Of a slot whose copy was enqueued: whether it has to wait until the host saw that done. If it
  /// need not, its batch is settled.
  bool MustWait(DeviceSlot* slot);
  /// Whether a slot waits.
  bool any_waits() const;

  struct Settled {
    SettledBatch::Kind kind = SettledBatch::Kind::kWhole;
    Status failure;  ///< not OK: nothing comes after this batch
  };
  /// Of a slot that waited and whose copy, with its sums, was seen done. kOther: the slot's item is
  /// what is left of the batch, made by the CPU, and has to be copied again.
  Settled Settle(DeviceSlot* slot);
  /// Drops what was not settled.
  void Reset();

  /// Batches since Reset of which nothing was left, so that they are not handed out. Any thread.
  std::uint64_t came_to_nothing() const { return nothing_.load(std::memory_order_relaxed); }
  /// Bytes of payloads whose checksums the device took. Any thread.
  std::uint64_t summed_bytes() const { return summed_bytes_.load(std::memory_order_relaxed); }

 private:
  /// Numbers of the sums that do not match.
  std::vector<std::uint32_t> BadSums(const DeviceSlot& slot);

  const std::shared_ptr<DeviceBackend> backend_;
  const std::span<DeviceSlot> slots_;
  std::uint64_t settled_ = 0;  ///< batches that are ready, or were
  std::atomic<std::uint64_t> nothing_{0};
  std::atomic<std::uint64_t> summed_bytes_{0};
};

}  // namespace ringfeed
