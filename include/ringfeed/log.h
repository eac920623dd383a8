#pragma once

#include <cstdint>
#include <string>

namespace ringfeed {

/// How much is told of what a run costs without need. RINGFEED_LOG says it: off, warn (the default)
/// or info.
enum class LogLevel : std::uint8_t {
  kOff,
  kWarn,  ///< set-backs that cost time: io_uring refused, small pages, an index in memory alone
  kInfo,  ///< also what was done in silence, such as where an index was put
};

/// Takes a text that says what is so and what helps, once for each kind in a process. Any thread
/// may call it, several at a time. It must not throw, and must not call ringfeed.
using LogFunction = void (*)(LogLevel level, const std::string& text) noexcept;

/// From now on `take` gets what RINGFEED_LOG lets through; null: stderr, a line for each, as in the
/// beginning. A child of fork has the same. Thread safe.
void SetLog(LogFunction take);

}  // namespace ringfeed
