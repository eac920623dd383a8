#include "base/machine/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

#include "base/machine/cgroup.h"

namespace ringfeed {

namespace {

int AffinityCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More CPUs than cpu_set_t holds.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// CPUs' worth of `text`, "quota period" in microseconds; 0 if there is no limit.
double QuotaOf(const std::string& text) {
  std::istringstream stream(text);
  double quota = 0;
  double period = 0;
  if (!(stream >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return quota / period;
}

double QuotaIn(const std::string& directory, bool version2) {
  if (version2) return QuotaOf(FirstLineOf(directory + "/cpu.max").value_or(""));
  return QuotaOf(FirstLineOf(directory + "/cpu.cfs_quota_us").value_or("") + " " +
                 FirstLineOf(directory + "/cpu.cfs_period_us").value_or(""));
}

}  // namespace

CpuCount CountCpus(const std::string& root) {
  CpuCount count;
  count.affinity = AffinityCount();
  for (const CgroupPath& path : CgroupPathsOf("cpu", root)) {
    for (const std::string& directory : path.directories) {
      const double quota = QuotaIn(directory, path.version2);
      if (quota > 0 && (count.quota == 0 || quota < count.quota)) count.quota = quota;
    }
  }
  count.usable = count.affinity;
  if (count.quota > 0) {
    count.usable = std::clamp(static_cast<int>(std::ceil(count.quota)), 1, count.affinity);
  }
  return count;
}

}  // namespace ringfeed
