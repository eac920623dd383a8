#pragma once

#include <memory>

#include "io/read_engine.h"

namespace ringfeed {

/// Reads ranges of objects (inputs whose remote() is set) by libcurl's multi interface: many at a
/// time, over connections that it keeps, with one copy of each byte. How many is found by
/// InFlightRule.
///
/// A failure that passes (no connection, a connection that ends early, 429, 5xx) is met by asking
/// anew for the bytes that are missing, with growing pauses, until RemoteSource::patience_ms after
/// the first one without a byte between; then the read is kResourceExhausted. A range that takes
/// much longer than the others is asked for once more on a new connection, and whichever brings
/// the bytes first counts. An answer of another state of the object, or of bytes that were not
/// asked for, brings none: the first is kDamaged. An answer with all of the object (a server
/// without ranges) is read up to the end of the range.
///
/// Throws Error (kResourceExhausted) if libcurl has no memory.
std::unique_ptr<ReadEngine> MakeHttpEngine();
/// The same through the cache of the objects that have one (cached_engine.h).
std::unique_ptr<ReadEngine> MakeRemoteEngine();

}  // namespace ringfeed
