#pragma once

#include <cstdint>
#include <ctime>

namespace ringfeed {

/// What a CPU clock says: CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID.
inline std::int64_t CpuNanos(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// CPU time of the calling thread so far, user and system.
inline std::int64_t ThreadCpuNanos() { return CpuNanos(CLOCK_THREAD_CPUTIME_ID); }
/// Of all threads of the process.
inline std::int64_t ProcessCpuNanos() { return CpuNanos(CLOCK_PROCESS_CPUTIME_ID); }

inline double ThreadCpuSeconds() { return static_cast<double>(ThreadCpuNanos()) * 1e-9; }
inline double ProcessCpuSeconds() { return static_cast<double>(ProcessCpuNanos()) * 1e-9; }

}  // namespace ringfeed
