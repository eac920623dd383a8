#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "gpu/feed/device_slot.h"
#include "gpu/feed/lane_sleep.h"
#include "gpu/feed/settling_order.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The slots of a lane whose batches came unsettled, or whose stage may fail: they are handed on in
/// their order, each after its batch is settled and its stage is done. All that comes after a slot
/// that waits for that waits too. For one thread, except for the count.
class BatchSettling {
 public:
  /// `order` and `sleep`, the lane's, outlive it.
  BatchSettling(std::shared_ptr<DeviceBackend> backend, SettlingOrder* order, LaneSleep* sleep)
      : backend_(std::move(backend)), order_(order), lane_(order->AddLane(sleep)) {}

  /// Of a slot whose copy was enqueued: whether it is handed on later. If not, its batch is
  /// settled.
  bool MustWait(DeviceSlot* slot);
  /// Whether a slot waits.
  bool any_waits() const { return !waiting_.empty(); }
  /// The copy of a slot that waits was seen done, with its sums.
  void NoteSeen(DeviceSlot* slot);
  /// The next slot, if its copy was seen done and its batch is settled; else null.
  DeviceSlot* Due() const;
  /// Has the slot's item be what became of its batch. kOther: that was made by the CPU, and has to
  /// be copied again.
  SettledBatch::Kind Apply(DeviceSlot* slot);
  /// The slot that is due waits no longer.
  void PopDue() { waiting_.pop_front(); }
  /// No slot waits any more: the slots that did. Those that are not `seen` are let go of later.
  std::deque<DeviceSlot*> Drop();
  /// The device failed.
  void Lose(const Status& status) { order_->Lose(lane_, 0, status); }
  /// The item after the last one that was enqueued could not be.
  void LoseRest(const Status& status) { order_->Lose(lane_, unfilled_, status); }

  /// Bytes whose checksums the device took. Any thread.
  std::uint64_t summed_bytes() const { return summed_bytes_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<DeviceBackend> backend_;
  SettlingOrder* const order_;
  const std::size_t lane_;
  std::deque<DeviceSlot*> waiting_;
  std::uint64_t unfilled_ = 0;  ///< the first item that was not enqueued has at least this number
  std::atomic<std::uint64_t> summed_bytes_{0};
};

}  // namespace ringfeed
