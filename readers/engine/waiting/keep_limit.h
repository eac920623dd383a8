#pragma once

#include <atomic>
#include <cstddef>

namespace ringfeed {

/// How many bytes of blocks batches may keep. Any thread may call any method; none waits.
class KeepLimit {
 public:
  void set_bytes(std::size_t bytes) { most_.store(bytes, std::memory_order_relaxed); }
  std::size_t bytes() const { return most_.load(std::memory_order_relaxed); }
  std::size_t kept() const { return kept_.load(std::memory_order_relaxed); }

  /// Whether so many bytes more may be kept; if so, they are, until LetGo.
  bool Keep(std::size_t bytes) {
    std::size_t kept = kept_.load(std::memory_order_relaxed);
    do {
      if (kept + bytes > most_.load(std::memory_order_relaxed)) return false;
    } while (!kept_.compare_exchange_weak(kept, kept + bytes, std::memory_order_relaxed));
    return true;
  }
  void LetGo(std::size_t bytes) { kept_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  // Counts: the blocks' own counters order what is in the memory.
  std::atomic<std::size_t> most_{0};
  std::atomic<std::size_t> kept_{0};
};

}  // namespace ringfeed
