#pragma once

#include <cstddef>
#include <string>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// The number of the parser's ragged field of that name. Throws Error, which names `who` asks,
/// where there is none, or its rows are joined by levels of LoD.
std::size_t FindRaggedField(const Parser& parser, const std::string& name, const std::string& who);

}  // namespace ringfeed
