#pragma once

#include <atomic>
#include <cstdint>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"

namespace ringfeed {

/// A lane's feeding thread that sleeps until it has something to do, and what others wake it by. It
/// can fill a slot with a batch, so neither wakes it without the other.
///
/// The protocol: who brings a batch or a slot writes it first, then calls Brought; who writes
/// anything else calls Wake. The thread registers first, then says that it lacks both, then looks.
/// All of these are read-modify-writes of one word each. So of a writer and the thread one comes
/// first: the thread finds what was brought before, or the writer takes it off what is missing, and
/// who takes off the last of it wakes.
///
/// Thread safety: Sleep is the thread's own; all others may be called by any thread, and wait for
/// nothing.
template <typename Policy>
class BasicLaneSleep {
 public:
  static constexpr std::uint64_t kBatch = 1;
  static constexpr std::uint64_t kSlot = 2;
  /// Why Sleep returned: there was something to do; somebody wrote something and woke it; the time
  /// has come.
  enum class End : std::uint8_t { kHadWork, kWoken, kTime };

  BasicLaneSleep() = default;
  BasicLaneSleep(const BasicLaneSleep&) = delete;
  BasicLaneSleep& operator=(const BasicLaneSleep&) = delete;

  /// Sleeps until a wake, unless has_work(), or until deadline(), which is asked behind that.
  /// there(): of kBatch and kSlot what the thread has, whether it acts on it now or not.
  template <typename There, typename HasWork, typename Until>
  End Sleep(There&& there, HasWork&& has_work, Until&& deadline) {
    const auto key = events_.PrepareWait();
    // Order: partner of Brought. What was written before that one is seen by the looks that follow.
    (void)missing_.exchange(kBatch | kSlot, std::memory_order_acq_rel);
    // Order: the same: who took the other one off before wrote something that has_work() sees.
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
