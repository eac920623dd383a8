#pragma once

#include <sys/stat.h>

#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Opens a file of data to be read; the descriptor is the caller's to close. kInvalidArgument for
/// what is no regular file; kUnsupported where its size is not what it holds, as of files of /proc:
/// such data are read as streams. kResourceExhausted, with what to do, where the process or the
/// system has no descriptor left. Never waits for a FIFO's writer.
Status OpenDataFile(const std::string& name, int* descriptor, struct stat* facts);

}  // namespace ringfeed
