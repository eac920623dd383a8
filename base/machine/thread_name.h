#pragma once

#include <pthread.h>

#include <cstddef>

namespace ringfeed {

/// Names the calling thread for top -H, perf and gdb. Linux keeps 15 bytes of a name.
template <std::size_t kBytes>
void NameThisThread(const char (&name)[kBytes]) {
  static_assert(kBytes <= 16, "Linux keeps 15 bytes of a thread's name");
  (void)pthread_setname_np(pthread_self(), name);
}

}  // namespace ringfeed
