#pragma once

#include <liburing.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// One io_uring of the thread that opens it, with the best set of flags that the kernel takes.
class UringRing {
 public:
  UringRing() = default;
  /// Ends the ring. No request may be in flight: the kernel would go on writing to its buffer.
  ~UringRing();
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;

  /// Opens it with room for `entries` requests, or for fewer if the memlock limit is tight. The
  /// Status says what may prevent it: sysctl, seccomp, limits.
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

/// Reads the head of a file through a ring that nothing else uses, and by pread: a ring that can be
/// made need not work. If the read does not end within `patience`, the Status says so. Then the
/// ring can only be ended; what the kernel still writes goes to memory that is kept for that.
Status TryRead(UringRing* ring, int descriptor, std::chrono::nanoseconds patience);

/// What the system says about permission to use io_uring, for reports: "kernel.io_uring_disabled =
/// 0, Seccomp: 2, …".
std::string UringRestrictions();

/// Registers a range of memory with a ring, piece by piece as reads first go to it: registering
/// faults memory in, so pieces without reads cost nothing. If a piece cannot be registered, no more
/// is tried, and reads go on without.
class UringBuffers {
 public:
  /// Nothing is registered yet; the range may be empty.
  UringBuffers(io_uring* ring, std::byte* data, std::size_t bytes);
  /// Gives the registrations back now; otherwise the kernel would do it some time after the ring's
  /// end.
  ~UringBuffers();
  UringBuffers(const UringBuffers&) = delete;
  UringBuffers& operator=(const UringBuffers&) = delete;

  /// The index for a fixed read into [buffer, buffer + bytes), or -1 for a plain one.
  int IndexFor(const std::byte* buffer, std::size_t bytes);
  /// "fixed buffers", or "plain buffers: <reason>".
  const std::string& description() const { return description_; }

 private:
  bool MakeTable();
  void Refuse(const std::string& why);

  io_uring* const ring_;
  std::byte* const data_;
  const std::size_t bytes_;
  std::size_t piece_bytes_ = 0;
  bool usable_ = false;
  bool has_table_ = false;
  std::vector<bool> registered_;  // by piece
  std::string description_;
};

}  // namespace ringfeed
