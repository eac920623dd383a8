#include "gpu/backends/emulated/device_health.h"

namespace ringfeed {

void DeviceHealth::Lose(int device, const Status& status) {
  const std::lock_guard lock(mutex_);
  Device& lost = devices_[static_cast<std::size_t>(device)];
  if (lost.status.ok()) lost.status = status;
  lost.lost.store(true, std::memory_order_seq_cst);
}

bool DeviceHealth::lost(int device) const {
  return devices_[static_cast<std::size_t>(device)].lost.load(std::memory_order_seq_cst);
}

// The lock is for lost devices alone: it would order the threads of healthy ones.
Status DeviceHealth::status(int device) const {
  if (!lost(device)) return {};
  const std::lock_guard lock(mutex_);
  return devices_[static_cast<std::size_t>(device)].status;
}

}  // namespace ringfeed
