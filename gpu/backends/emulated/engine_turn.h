#pragma once

#include <atomic>
#include <cstdint>

namespace ringfeed {

// Sleeping on a word. Not std::atomic::wait: its bookkeeping orders the one who wakes behind the
// one who slept, and with that a host behind what its device did, as no device does; a race in the
// code that runs on emulated devices would be hidden from ThreadSanitizer.

/// Returns when the word may be another than `seen`, by WakeAll or for no reason, or after most_ns.
void AwaitChange(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t most_ns);
/// To be called after every change. Looks at nothing that a sleeper wrote.
void WakeAll(const std::atomic<std::uint32_t>& word);

/// One engine of a device in real time: one stream's thread at a time has it. Relaxed throughout:
/// that two operations had the same engine puts no order between what they did to memory.
class EngineTurn {
 public:
  void Take() {
    while (taken_.exchange(1, std::memory_order_relaxed) != 0) AwaitChange(taken_, 1, kMostNanos);
  }
  /// `free_at_ns` is when it ended by the model.
  void Give(std::int64_t free_at_ns) {
    free_at_ns_.store(free_at_ns, std::memory_order_relaxed);
    taken_.store(0, std::memory_order_relaxed);
    WakeAll(taken_);
  }
  std::int64_t free_at_ns() const { return free_at_ns_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kMostNanos = 1'000'000'000;
  std::atomic<std::uint32_t> taken_ = 0;
  std::atomic<std::int64_t> free_at_ns_ = 0;
};

}  // namespace ringfeed
