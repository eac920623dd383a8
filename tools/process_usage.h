#pragma once

#include <cstdint>

namespace ringfeed::tools {

/// Seconds of a clock that only goes forward.
double NowSeconds();
/// The most memory that this process had resident at a time, mapped files included.
std::uint64_t ProcessPeakRssBytes();

}  // namespace ringfeed::tools
