#pragma once

#include <cstdint>
#include <string>

namespace ringfeed {

/// How much memory this process may use, and what sets that limit.
struct MemoryLimit {
  std::uint64_t bytes = 0;
  std::string source;  ///< "cgroup v2", "cgroup v1" or "machine"
};

/// The smallest limit on the path from this process's cgroup to the root (v2, then v1), never more
/// than the machine has. `root` is put before /proc and /sys, for tests.
MemoryLimit FindMemoryLimit(const std::string& root = "");

/// What the machine has free or can free at once, page cache included; never more than the limit.
std::uint64_t AvailableMemory(const std::string& root = "");

}  // namespace ringfeed
