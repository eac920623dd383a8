#pragma once

#include <atomic>
#include <cstdint>

#include "base/process_number.h"

namespace ringfeed {

/// The process that an object with threads belongs to: the one that used it. A child of fork has a
/// copy of the object and none of the threads. Thread safe; takes no lock.
class OwnerProcess {
 public:
  /// This process uses the object.
  void Note() noexcept {
    const std::uint64_t process = ProcessNumber();
    if (number_.load(std::memory_order_relaxed) != process) {
      number_.store(process, std::memory_order_relaxed);
    }
  }
  /// Whether the owner is a process that this one was forked from. False if nobody used the object.
  bool IsParent() const noexcept {
    const std::uint64_t process = number_.load(std::memory_order_relaxed);
    return process != 0 && process != ProcessNumber();
  }

 private:
  std::atomic<std::uint64_t> number_{0};
};

}  // namespace ringfeed
