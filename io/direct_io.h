#pragma once

#include <cstdint>
#include <string>

namespace ringfeed {

/// Turns O_DIRECT on for an open file. Returns the alignment that offsets, lengths and addresses
/// need from now on, or 0, with `why_not` filled in, where the file system does not have it.
std::uint32_t EnableDirect(int descriptor, std::string* why_not);

/// Turns O_DIRECT off again; reads that are under way are not affected. False where it was not on.
bool DisableDirect(int descriptor);

}  // namespace ringfeed
