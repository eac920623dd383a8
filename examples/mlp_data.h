#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/reader.h"

namespace mlp {

/// Writes TFRecord files of rows that a small network can tell apart, but no straight line: "x",
/// float[13], and "label", int64, 0 or 1. The folder is made where it is missing. Throws
/// ringfeed::Error.
void MakeData(const std::string& folder, std::uint64_t records);

/// Batches of such files, shuffled, `passes` times over.
ringfeed::Reader OpenData(const std::vector<std::string>& files, std::uint64_t passes,
                          std::size_t batch_size);

}  // namespace mlp
