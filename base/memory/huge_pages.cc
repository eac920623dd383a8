#include "base/memory/huge_pages.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>

#include "base/machine/cgroup.h"

namespace ringfeed {

std::size_t HugeBytesIn(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = begin + bytes;
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  std::size_t huge = 0;
  bool ours = false;
  while (std::getline(smaps, line)) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::size_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      ours = from >= begin && from < end;
    } else if (ours && std::sscanf(line.c_str(), "AnonHugePages: %zu kB", &kibibytes) == 1) {
      huge += kibibytes * 1024;
    }
  }
  return huge;
}

std::string WhyNoHugePages() {
  const std::optional<std::string> mode =
      FirstLineOf("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!mode) return "the kernel has no transparent huge pages";
  if (mode->find("[never]") != std::string::npos) {
    return "transparent_hugepage/enabled is \"never\"";
  }
  return "the kernel found no free huge pages (fragmented memory or a cgroup limit)";
}

}  // namespace ringfeed
