#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ringfeed {

/// From now on AddressSanitizer reports an access to these bytes: they are mapped but free. Does
/// nothing in other builds.
inline void ForbidUse([[maybe_unused]] const std::byte* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data, bytes);
#endif
}

/// Allows access again.
inline void AllowUse([[maybe_unused]] const std::byte* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(data, bytes);
#endif
}

/// Whether AddressSanitizer would report an access; false in other builds.
inline bool IsForbidden([[maybe_unused]] const std::byte* data) {
#if defined(__SANITIZE_ADDRESS__)
  return __asan_address_is_poisoned(data) != 0;
#else
  return false;
#endif
}

}  // namespace ringfeed
