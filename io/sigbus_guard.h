#pragma once

#include <atomic>
#include <cstddef>

namespace ringfeed {

/// Keeps the process alive when a mapped file is shorter than its mapping, or its medium fails: a
/// handler for SIGBUS puts a page of zeros in the place of the missing one and marks the mapping.
/// Faults elsewhere go to the handler that was there before. The guard of a range must end before
/// the range is unmapped.
class SigbusGuard {
 public:
  SigbusGuard(const void* data, std::size_t bytes);
  ~SigbusGuard();
  SigbusGuard(const SigbusGuard&) = delete;
  SigbusGuard& operator=(const SigbusGuard&) = delete;

  /// True once a page of the range was found missing.
  bool damaged() const;

  struct Slot;

 private:
  Slot* slot_;
};

}  // namespace ringfeed
