#include "tools/process_usage.h"

#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace ringfeed::tools {
namespace {

std::uint64_t PeakRssOfUsage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Not ru_maxrss: that also has the peak of the process which called exec.
std::uint64_t ProcessPeakRssBytes() {
  constexpr std::string_view kName = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kName)) continue;
    return std::strtoull(line.c_str() + kName.size(), nullptr, 10) * 1024;
  }
  return PeakRssOfUsage();
}

}  // namespace ringfeed::tools
