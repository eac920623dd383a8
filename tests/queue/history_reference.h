#pragma once

#include "tests/queue/history_checker.h"

namespace ringfeed::history {

// The same question as CheckQueueHistory, answered by trying every order of the calls on a queue of
// one thread (Wing and Gong, "Testing and verifying concurrent objects", 1993): at most about ten
// calls, without bulk calls.
bool SomeOrderExplains(const QueueHistory& history, std::size_t capacity);

}  // namespace ringfeed::history
