#pragma once

#include <string>
#include <vector>

#include "bench/loop_result.h"
#include "readers/formats/format.h"
#include "readers/parsers/parser.h"

namespace ringfeed::bench {

/// The same reads as the bare loops, with ringfeed's framer and parser in the middle: what these
/// two cost, without the rest of the engine. Without a parser records are framed and checked only.
LoopResult RunStageLoop(const std::vector<std::string>& files, const Format& format,
                        const Parser* parser, const LoopOptions& options);

}  // namespace ringfeed::bench
