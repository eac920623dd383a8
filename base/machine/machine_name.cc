#include "base/machine/machine_name.h"

#include <sys/utsname.h>

#include <cstddef>
#include <fstream>

namespace ringfeed {

std::string ProcessorName() {
  std::ifstream facts("/proc/cpuinfo");
  std::string line;
  while (std::getline(facts, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (line.find(':') != std::string::npos && begin != std::string::npos) {
      return line.substr(begin);
    }
  }
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

}  // namespace ringfeed
