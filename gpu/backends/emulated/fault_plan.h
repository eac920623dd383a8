#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "ringfeed/emulated_devices.h"

namespace ringfeed {

/// Counts calls and says which of them go wrong.
///
/// Thread safety: all calls from any thread; of calls at the same time any may be the nth.
class FaultPlan {
 public:
  /// Throws Error for a fault that can never happen: an nth of 0, kLater of a call without work.
  explicit FaultPlan(std::vector<DeviceFault> faults);

  /// To be called once by every call, before it does anything.
  std::optional<FaultEffect> Next(DeviceCall call);
  std::uint64_t CallsOf(DeviceCall call) const {
    return calls_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed);
  }

 private:
  std::vector<DeviceFault> faults_;
  std::array<std::atomic<std::uint64_t>, kDeviceCalls> calls_{};
};

}  // namespace ringfeed
