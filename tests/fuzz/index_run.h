#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "readers/formats/format.h"
#include "tests/fuzz/frame_run.h"

namespace ringfeed {

/// Checks that an index of the file has the records that framing it in order gave, damaged ones
/// too, and that each of them comes out of its unit as it came in order. `in_order` is a run under
/// kSkip of a file of known size.
void ExpectSameByIndex(const std::shared_ptr<const Format>& format, std::span<const std::byte> file,
                       const FrameControl& control, const FrameRun& in_order);

}  // namespace ringfeed
