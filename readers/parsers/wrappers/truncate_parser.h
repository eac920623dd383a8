#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// `inner` with the rows of one ragged field cut to `length` units. Where its locations can be cut
/// nothing else is done; else a row that is too long is written aside, and its beginning copied.
/// Throws Error where there is no such field.
std::shared_ptr<const Parser> MakeTruncateParser(std::shared_ptr<const Parser> inner,
                                                 const std::string& field, std::uint32_t length);

}  // namespace ringfeed
