#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringfeed/open_options.h"

namespace ringfeed {

/// The files of the list of `files` that pass `pass` reads, by their numbers, in its order
/// (docs/ORDER.md, "Files, stripes, interleave").
std::vector<std::size_t> FilesOfPass(std::size_t files, const FileOrder& order, std::uint64_t pass);

}  // namespace ringfeed
