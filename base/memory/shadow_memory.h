#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ringfeed {

/// AddressSanitizer reports who touches these bytes from now on: they are mapped, and nobody's.
/// Nothing in other builds.
inline void ForbidUse([[maybe_unused]] const std::byte* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data, bytes);
#endif
}

/// They are somebody's again.
inline void AllowUse([[maybe_unused]] const std::byte* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(data, bytes);
#endif
}

/// Whether AddressSanitizer would report who touches it; false in other builds.
inline bool IsForbidden([[maybe_unused]] const std::byte* data) {
#if defined(__SANITIZE_ADDRESS__)
  return __asan_address_is_poisoned(data) != 0;
#else
  return false;
#endif
}

}  // namespace ringfeed
