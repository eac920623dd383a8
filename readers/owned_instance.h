#pragma once

#include "ringfeed/instance.h"

namespace ringfeed {

/// Copies every tensor, its LoD too, to memory of its own: what it was in may be used again.
void OwnMemory(Instance* instance);

}  // namespace ringfeed
