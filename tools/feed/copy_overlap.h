#pragma once

#include <optional>
#include <span>

#include "ringfeed/timeline.h"

namespace ringfeed::tools {

/// The part of the time that copies to a device ("copy" spans of its track) took during which the
/// device computed ("step" spans). None where it computed nothing, or nothing was copied.
std::optional<double> CopyOverlap(std::span<const TimeSpan> spans, int track);

}  // namespace ringfeed::tools
