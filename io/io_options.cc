#include "ringfeed/io_options.h"

namespace ringfeed {

std::string_view IoPathName(IoPath path) {
  switch (path) {
    case IoPath::kAuto:
      return "auto";
    case IoPath::kUring:
      return "uring";
    case IoPath::kPread:
      return "pread";
    case IoPath::kMmap:
      return "mmap";
  }
  return "unknown";
}

}  // namespace ringfeed
