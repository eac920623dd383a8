#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Opens a file of data to be read; the descriptor is the caller's to close. kInvalidArgument for
/// what is no regular file; kUnsupported where its size is not what it holds, as of files of /proc:
/// such data are read as streams. kResourceExhausted, with what to do, where the process or the
/// system has no descriptor left. Never waits for a FIFO's writer.
Status OpenDataFile(const std::string& name, int* descriptor, struct stat* facts);

/// Reads all of `to`, from `offset` of the file on, or up to its end: goes on where a read was
/// interrupted or came short. *got becomes how many bytes are there, also after a failure. Blocks.
Status ReadWhole(int descriptor, std::uint64_t offset, std::span<std::byte> to, std::size_t* got);

}  // namespace ringfeed
