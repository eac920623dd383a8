#pragma once

#include <string>

namespace ringfeed {

/// How many CPUs this process can use at a time.
struct CpuCount {
  int affinity = 1;  ///< CPUs in the affinity mask of the calling thread
  double quota = 0;  ///< CPUs' worth of time that the cgroup grants; 0: no limit
  int usable = 1;    ///< the smaller of the two, the quota rounded up; at least 1
};

/// Counted anew at each call. `root` is put before /proc and /sys, for tests.
CpuCount CountCpus(const std::string& root = "");

}  // namespace ringfeed
