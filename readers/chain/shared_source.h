#pragma once

#include <memory>

#include "readers/engine/plan/plan.h"

namespace ringfeed {

/// What a chain on a shared reader begins with: it takes from `input` whatever comes next, and
/// other chains do so too. Records and instances are copied, so that nobody holds another's memory.
SourceNode SharedSource(std::shared_ptr<ReaderSession> input);

}  // namespace ringfeed
