#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/memory/arena.h"
#include "gpu/feed/device_slot.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Gives a device's slots the memory that their plans need: on the device, and on the host for what
/// stands elsewhere than in pinned memory. For one thread, but for grown_slots.
class SlotMemory {
 public:
  SlotMemory(const FeedOptions& options, int device)
      : backend_(options.backend),
        device_(device),
        slot_bytes_(options.slot_bytes),
        fixed_slots_(options.fixed_slots),
        takes_sums_(options.transfer != TransferPlan::kBatch),
        allocator_(options.slot_allocator) {}
  /// The copy stream, which the program's allocator is told. Outlives the slots' memory.
  void set_stream(DeviceStream stream) { stream_ = stream; }

  /// Whether Fit would replace the slot's memory: nothing may use it then.
  bool Grows(const DeviceSlot& slot) const {
    return slot.memory != nullptr && NeededBy(slot) > slot.capacity && !IsTooLarge(slot);
  }
  /// Makes the memory of a slot that has none, if its size was asked for. kResourceExhausted.
  Status Make(DeviceSlot* slot);
  /// Makes the slot as large as its plan, unless slots are fixed. kResourceExhausted.
  Status Fit(DeviceSlot* slot);
  /// Makes its staging memory as large as its plan. kResourceExhausted.
  Status FitStaging(DeviceSlot* slot);
  void FreeStaging(DeviceSlot* slot);
  /// No work on the device uses it any more. Fails if the program does not take it back.
  Status Free(DeviceSlot* slot);

  /// Slots that became larger after they had held a batch. Any thread.
  std::uint64_t grown_slots() const { return grown_slots_.load(std::memory_order_relaxed); }
  /// The bytes of the largest slot so far. Any thread.
  std::size_t largest_slot() const { return largest_slot_.load(std::memory_order_relaxed); }

 private:
  static std::size_t NeededBy(const DeviceSlot& slot) { return slot.plan.layout().slot_bytes(); }
  /// For slots that must stay as they are.
  bool IsTooLarge(const DeviceSlot& slot) const {
    return fixed_slots_ && (slot.sized || (slot_bytes_ > 0 && NeededBy(slot) > slot_bytes_));
  }
  std::size_t CapacityFor(const DeviceSlot& slot);
  Status Allocate(DeviceSlot* slot, std::size_t bytes);
  Status GiveBack(std::byte* data, std::size_t bytes);
  /// An allocation's failure, with the remedy.
  Status Explained(const Status& status, std::size_t bytes) const;

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  const std::size_t slot_bytes_;  ///< as asked for; 0: as batches need
  const bool fixed_slots_;
  const bool takes_sums_;  ///< fixed slots need room for them, whether or not the first batch does
  const SlotAllocator allocator_;
  DeviceStream stream_;
  std::shared_ptr<Arena> staging_arena_;
  std::size_t learned_bytes_ = 0;
  std::atomic<std::uint64_t> grown_slots_{0};
  std::atomic<std::size_t> largest_slot_{0};
};

}  // namespace ringfeed
