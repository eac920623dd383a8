#pragma once

#include <fcntl.h>

namespace ringfeed {

/// A pipe takes 64 KiB at a time, and writer and reader wake each other for each. This makes it 1
/// MiB. If the descriptor is no pipe, or may not grow, nothing happens.
inline void WidenPipe(int descriptor) {
  constexpr int kPipeBytes = 1 << 20;
  (void)fcntl(descriptor, F_SETPIPE_SZ, kPipeBytes);
}

}  // namespace ringfeed
