#pragma once

#include <string>

namespace ringfeed {

/// What the processor calls itself, "AMD EPYC 7B13", or, if it has no name, its kind: "aarch64".
std::string ProcessorName();

}  // namespace ringfeed
