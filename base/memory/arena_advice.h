#pragma once

#include <cstddef>
#include <string>

#include "base/memory/arena.h"

namespace ringfeed {

/// Why there is no memory for a thing ("a record of 12 bytes") that an arena should hold, and what
/// to raise.
std::string NoMemoryFor(const std::string& thing);

/// Why there is no run of so many bytes in an arena, what to raise, and what to `lower` instead.
std::string NoRunOf(std::size_t bytes, const Arena& arena, const std::string& lower);

}  // namespace ringfeed
