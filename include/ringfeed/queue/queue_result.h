#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ringfeed {

/// The outcome of an operation on a ring or a channel. None of them is an error by itself.
enum class QueueResult : std::uint8_t {
  kOk,       ///< done
  kFull,     ///< try forms: no room
  kEmpty,    ///< try forms: no item
  kClosed,   ///< push: closed, the item is untouched; pop: closed and drained, or cancelled
  kTimeout,  ///< the deadline came first
  kStopped,  ///< the stop token came first
  kFailed,   ///< Channel only: ended by a failure, see Channel::status()
};

/// The name in lower case, e.g. "closed".
constexpr std::string_view QueueResultName(QueueResult result) noexcept {
  constexpr std::string_view kNames[] = {"ok",      "full",    "empty", "closed",
                                         "timeout", "stopped", "failed"};
  return kNames[static_cast<std::size_t>(result)];
}

/// The outcome of a bulk operation: how many items moved, also if the result is not kOk.
struct BulkResult {
  QueueResult result = QueueResult::kOk;
  std::size_t count = 0;
};

}  // namespace ringfeed
