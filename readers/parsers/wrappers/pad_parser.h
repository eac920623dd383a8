#pragma once

#include <memory>
#include <string>

#include "readers/parsers/parser.h"
#include "ringfeed/sequences.h"

namespace ringfeed {

/// `inner` with the rows of one ragged field filled up, and a last field of their own lengths. The
/// inner parser writes each row to its place in the batch, what is lacking is filled behind it.
/// Throws Error where there is no such field, or its type does not hold the value.
std::shared_ptr<const Parser> MakePadParser(std::shared_ptr<const Parser> inner,
                                            const std::string& field, const PadOptions& options);

}  // namespace ringfeed
