#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "ringfeed/lock_free_ring.h"
#include "ringfeed/mpmc_ring.h"

namespace ringfeed {

// The rings between any threads, for tests that ask the same of each.
struct SlotRings {
  template <typename T, typename Policy = NativeQueuePolicy>
  using Ring = MpmcRing<T, Policy>;
};
struct LockFreeRings {
  template <typename T, typename Policy = NativeQueuePolicy>
  using Ring = LockFreeRing<T, Policy>;
};
template <typename Kind, typename T, typename Policy = NativeQueuePolicy>
using RingOf = typename Kind::template Ring<T, Policy>;

using RingKinds = ::testing::Types<SlotRings, LockFreeRings>;

struct RingKindNames {
  template <typename Kind>
  static std::string GetName(int) {
    return std::is_same_v<Kind, SlotRings> ? "Slots" : "LockFree";
  }
};

}  // namespace ringfeed
