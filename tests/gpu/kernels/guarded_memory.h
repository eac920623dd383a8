#pragma once

#include <cstddef>
#include <span>

namespace ringfeed {

/// Bytes between two pages that nobody may touch: whoever reads or writes beyond one end crashes at
/// that very access, in every build. They lie at the first or at the last byte of their own pages.
class GuardedMemory {
 public:
  enum class Edge { kBegin, kEnd };

  /// Holds `bytes` zeros; throws std::bad_alloc.
  GuardedMemory(std::size_t bytes, Edge edge);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const { return bytes_.data(); }
  std::span<std::byte> bytes() const { return bytes_; }
  /// From here on writing crashes too.
  void MakeReadOnly();

 private:
  std::span<std::byte> mapping_;  ///< with both guards
  std::span<std::byte> inner_;    ///< without
  std::span<std::byte> bytes_;
};

}  // namespace ringfeed
