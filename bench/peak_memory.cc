#include "bench/peak_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stop_token>
#include <string>
#include <string_view>

namespace ringfeed::bench {

PeakMemory::PeakMemory()
    : peak_(AnonymousBytes()), sampler_([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          peak_.store(std::max(peak_.load(), AnonymousBytes()));
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
      }) {}

std::uint64_t PeakMemory::bytes() { return std::max(peak_.load(), AnonymousBytes()); }

std::uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  std::uint64_t bytes = 0;
  while (std::getline(status, line)) {
    for (const std::string_view kind : {"RssAnon:", "RssShmem:"}) {
      if (!line.starts_with(kind)) continue;
      bytes += 1024 * std::strtoull(line.c_str() + kind.size(), nullptr, 10);
    }
  }
  return bytes;
}

}  // namespace ringfeed::bench
