#include "io/direct_io.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "ringfeed/status.h"

namespace ringfeed {

namespace {

/// What every file system with direct I/O accepts where it does not say what it needs.
constexpr std::uint32_t kSafeAlignment = 4096;

}  // namespace

std::uint32_t EnableDirect(int descriptor, std::string* why_not) {
  std::uint32_t alignment = kSafeAlignment;
#ifdef STATX_DIOALIGN
  struct statx stat {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stat) == 0 &&
      (stat.stx_mask & STATX_DIOALIGN) != 0) {
    if (stat.stx_dio_offset_align == 0) {
      *why_not = "the file system has no O_DIRECT for it";
      return 0;
    }
    alignment = std::max({stat.stx_dio_mem_align, stat.stx_dio_offset_align, 512u});
  }
#endif
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0) {
    *why_not = StatusFromErrno(errno, "O_DIRECT").message();
    return 0;
  }
  return alignment;
}

bool DisableDirect(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return false;
  return fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) == 0;
}

}  // namespace ringfeed
