#pragma once

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

}  // namespace ringfeed
