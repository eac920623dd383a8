#pragma once

#include <liburing.h>

#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// One io_uring of the thread that opens it, with the best set of flags that the kernel takes.
class UringRing {
 public:
  UringRing() = default;
  /// Ends the ring. No request may be under way: the kernel would go on writing to its buffer.
  ~UringRing();
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  /// Opens it with room for `entries` requests, or for fewer where memory is locked too tightly.
  /// The Status says what may stand in the way: sysctl, seccomp, limits.
  Status Open(unsigned entries);

  io_uring* get() { return &ring_; }
  unsigned entries() const { return entries_; }
  /// The flags that were accepted, by name.
  std::string FlagNames() const;
  bool defers_task_work() const { return (ring_.flags & IORING_SETUP_DEFER_TASKRUN) != 0; }

 private:
  int OpenWithLadder(unsigned entries);

  io_uring ring_{};
  unsigned entries_ = 0;  // 0: not open
};

/// What the system says about who may use io_uring, for reports: "kernel.io_uring_disabled = 0,
/// Seccomp: 2, …".
std::string UringRestrictions();

}  // namespace ringfeed
