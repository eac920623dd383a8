#include "base/memory/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

#include "base/machine/cgroup.h"

namespace ringfeed {

namespace {

std::uint64_t MachineMemory(const std::string& root, const char* which) {
  std::ifstream file(root + "/proc/meminfo");
  std::string word;
  std::uint64_t kibibytes = 0;
  while (file >> word) {
    if (word == which && file >> kibibytes) return kibibytes * 1024;
  }
  // Without /proc nothing is known; a small machine is assumed.
  return std::uint64_t{1} << 30;
}

/// The number in the first line; nothing for "max", which does not limit.
std::optional<std::uint64_t> LimitIn(const std::string& path) {
  const std::optional<std::string> line = FirstLineOf(path);
  if (!line) return std::nullopt;
  std::uint64_t value = 0;
  const auto result = std::from_chars(line->data(), line->data() + line->size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

MemoryLimit FindMemoryLimit(const std::string& root) {
  MemoryLimit limit{MachineMemory(root, "MemTotal:"), "machine"};
  for (const CgroupPath& path : CgroupPathsOf("memory", root)) {
    const char* file = path.version2 ? "/memory.max" : "/memory.limit_in_bytes";
    for (const std::string& directory : path.directories) {
      const std::optional<std::uint64_t> bytes = LimitIn(directory + file);
      if (bytes && *bytes < limit.bytes) {
        limit = {*bytes, path.version2 ? "cgroup v2" : "cgroup v1"};
      }
    }
  }
  return limit;
}

std::uint64_t AvailableMemory(const std::string& root) {
  return std::min(MachineMemory(root, "MemAvailable:"), FindMemoryLimit(root).bytes);
}

}  // namespace ringfeed
