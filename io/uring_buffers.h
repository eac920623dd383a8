#pragma once

#include <liburing.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ringfeed {

/// Registers a range of memory with a ring, piece by piece as reads first go to it: registering
/// faults memory in, so what is never read into costs nothing. Where a piece cannot be registered
/// no more is tried, and reads go on without.
class UringBuffers {
 public:
  /// Nothing is registered yet; the range may be empty.
  UringBuffers(io_uring* ring, std::byte* data, std::size_t bytes);
  /// Gives the registrations back, which leaving to the ring's end would put off.
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
