#pragma once

#include "readers/chain/graph.h"
#include "readers/engine/plan/plan.h"

namespace ringfeed {

/// The program of the chain that ends in `last`. Throws Error for chains that make no sense.
Program LowerChain(const GraphNode& last);

}  // namespace ringfeed
