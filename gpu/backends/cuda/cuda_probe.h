#pragma once

#include "ringfeed/status.h"

namespace ringfeed {

/// How many devices CUDA has here, or why none can be used and what can be done about it. Loads the
/// driver, makes no context.
Status ProbeCuda(int* devices);

}  // namespace ringfeed
