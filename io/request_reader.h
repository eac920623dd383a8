#pragma once

#include "io/read_engine.h"

namespace ringfeed {

class ReadProgress;

/// Serves one request in the caller's thread, files and user's sources alike, and adds what it
/// took to `stats`.
ReadCompletion ReadRequestBlocking(const ReadRequest& request, int retries, ReadEngineStats* stats);

/// Adds a read that has ended to `stats`; returns its completion.
ReadCompletion FinishRead(std::uint64_t tag, const ReadProgress& progress, ReadEngineStats* stats);

}  // namespace ringfeed
