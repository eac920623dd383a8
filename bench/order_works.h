#pragma once

#include <vector>

#include "bench/harness.h"

namespace ringfeed::bench {

/// Rows of one size at random places of warm files, beside bare loops over the same places.
std::vector<Work> GatherWorks();
/// Indexes beside a plain read of their files; positions, and going on from them.
std::vector<Work> IndexWorks();
/// Batches that are planned from lengths.
std::vector<Work> PlannedWorks();

}  // namespace ringfeed::bench
