#pragma once

#include <stop_token>

#include "ringfeed/queue/deadline.h"

namespace ringfeed {

/// What ends a read that waits.
struct ReadLimits {
  /// Where it can be requested it is another chain that reads, or whoever hands on what was read:
  /// the read fails soon after the request, and waits also for what its thread holds itself.
  std::stop_token stop{};
  /// Without a `stop` alone. Looked at only while the read waits.
  Deadline deadline = kNoDeadline;
};

}  // namespace ringfeed
