#include "tools/process_usage.h"

#include <sys/resource.h>

namespace ringfeed::tools {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

rusage Usage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

}  // namespace

double ProcessCpuSeconds() {
  const rusage usage = Usage();
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

std::uint64_t ProcessPeakRssBytes() { return static_cast<std::uint64_t>(Usage().ru_maxrss) * 1024; }

}  // namespace ringfeed::tools
