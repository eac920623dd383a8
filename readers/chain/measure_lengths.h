#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "readers/engine/plan/execution_plan.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// MeasureFiles, by a chain of its own with one thread: it reads the files one after another, and
/// skips damage. Thread safe.
std::vector<std::vector<std::uint32_t>> MeasureLengths(const SourceNode& like,
                                                       std::span<const CountedFile> files,
                                                       const std::shared_ptr<const Parser>& units,
                                                       const std::stop_token& stop);

}  // namespace ringfeed
