#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Opens a file of data to be read; the caller closes the descriptor. kInvalidArgument for anything
/// but a regular file. kUnsupported if its size is not the size of its contents, as in /proc: such
/// data are read as streams. kResourceExhausted, with what to do, if the process or the system has
/// no descriptor left. Never waits for a FIFO's writer.
Status OpenDataFile(const std::string& name, int* descriptor, struct stat* facts);

/// How many files may be kept open: one of so many parts of the descriptors that the process may
/// have, at least 16 and at most `most`.
std::size_t PartOfDescriptors(std::size_t parts, std::size_t most);

/// kUnsupported, with what to do, if `name` is an address ("s3://…", "https://…", of any scheme),
/// which nothing here opens. OK for all other names, and if there is a folder "s3:", as for a path.
Status RefuseAddress(const std::string& name);

/// Reads all of `to`, from `offset` of the file on, or up to the file's end. Goes on after
/// interrupted and short reads. Sets *got to the number of bytes read, also after a failure.
/// Blocks.
Status ReadWhole(int descriptor, std::uint64_t offset, std::span<std::byte> to, std::size_t* got);

}  // namespace ringfeed
