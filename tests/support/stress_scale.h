#pragma once

#include <stdlib.h>  // getloadavg
#include <unistd.h>

#include <algorithm>

namespace ringfeed {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// `rounds` in an ordinary build, a tenth of it where a sanitizer watches every access.
constexpr int StressRounds(int rounds) { return kSanitized ? std::max(1, rounds / 10) : rounds; }

/// How many want each processor: what takes a moment alone takes so many there. From 1 to 10.
inline double Crowding() {
  double load = 0;
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (cpus < 1 || getloadavg(&load, 1) != 1) return 1;
  return std::clamp(load / static_cast<double>(cpus), 1.0, 10.0);
}

}  // namespace ringfeed
