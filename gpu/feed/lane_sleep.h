#pragma once

#include <atomic>
#include <cstdint>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"

namespace ringfeed {

/// Lets a lane's feeding thread sleep until it has something to do, and lets others wake it. It
/// needs a slot and a batch to work, so neither wakes it without the other.
///
/// The protocol: a thread that brings a batch or a slot writes it first, then calls Brought; a
/// thread that writes anything else calls Wake. The sleeper registers first, then says that it
/// lacks both, then looks. All of these are read-modify-writes of one word each. So of a writer and
/// the sleeper one comes first: the sleeper finds what was brought before, or the writer clears its
/// bit of what is missing. The writer that clears the last bit wakes.
///
/// Thread safety: only the feeding thread calls Sleep. All others may be called by any thread, and
/// wait for nothing.
template <typename Policy>
class BasicLaneSleep {
 public:
  static constexpr std::uint64_t kBatch = 1;
  static constexpr std::uint64_t kSlot = 2;
  /// Why Sleep returned: there was something to do; another thread wrote something and woke it; the
  /// time has come.
  enum class End : std::uint8_t { kHadWork, kWoken, kTime };

  BasicLaneSleep() = default;
  BasicLaneSleep(const BasicLaneSleep&) = delete;
  BasicLaneSleep& operator=(const BasicLaneSleep&) = delete;

  /// Sleeps until a wake, unless has_work(), or until deadline(), which is asked after that.
  /// there(): what the thread has of kBatch and kSlot, whether it acts on it now or not.
  template <typename There, typename HasWork, typename Until>
  End Sleep(There&& there, HasWork&& has_work, Until&& deadline) {
    const auto key = events_.PrepareWait();
    // Order: partner of Brought. The looks that follow see all writes before that Brought.
    (void)missing_.exchange(kBatch | kSlot, std::memory_order_acq_rel);
    // Order: the same: has_work() sees the write of the thread that cleared the other bit before.
    (void)missing_.fetch_and(~there(), std::memory_order_acq_rel);
    if (has_work()) {
      events_.CancelWait(key);
      return End::kHadWork;
    }
    return events_.CommitWait(key, deadline()) ? End::kWoken : End::kTime;
  }

  /// Ends Sleep, unless the lane lacks the other one.
  void Brought(std::uint64_t what) {
    // Order: partner of the exchange and of the second step in Sleep.
    const std::uint64_t before = missing_.fetch_and(~what, std::memory_order_acq_rel);
    if ((before & ~what) == 0) events_.Notify(1);
  }
  /// Ends Sleep.
  void Wake() { events_.NotifyAll(); }

 private:
  typename Policy::template Atomic<std::uint64_t> missing_{0};  ///< since the last Sleep began
  BasicEventCount<Policy> events_;
};

using LaneSleep = BasicLaneSleep<NativeQueuePolicy>;

}  // namespace ringfeed
