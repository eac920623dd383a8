#pragma once

#include <memory>

#include "io/read_engine.h"
#include "io/remote/in_flight_rule.h"

namespace ringfeed {

/// Which way ranges go.
enum class HttpPath {
  kDirect,   ///< ordinary ones by connections of our own, all others by libcurl
  kLibrary,  ///< all by libcurl; for comparisons
};

/// Reads ranges of objects (inputs whose remote() is set), many at a time, over connections that
/// are kept. How many is found by InFlightRule. Ordinary answers (206 with exactly the range that
/// was asked for) are read by ourselves, straight into the buffers; the first try of each range
/// goes this way (direct_connections.h). Everything else goes by libcurl's multi interface, with
/// one copy of each byte: an answer that is not ordinary is asked for once more, and so is what
/// failed.
///
/// A failure that passes (no connection, a connection that ends early, 429, 5xx) is met by asking
/// anew for the bytes that are missing, with growing pauses, until RemoteSource::patience_ms after
/// the first one without a byte between; then the read is kResourceExhausted. A range that takes
/// much longer than the others is asked for once more on a new connection, and whichever brings
/// the bytes first counts. An answer of another state of the object, or of bytes that were not
/// asked for, brings none: the first is kDamaged. An answer with all of the object (a server
/// without ranges) is read up to the end of the range.
///
/// `rule` decides how many ranges are in flight. Throws Error (kResourceExhausted) if libcurl has
/// no memory.
std::unique_ptr<ReadEngine> MakeHttpEngine(HttpPath path = HttpPath::kDirect,
                                           const InFlightRule& rule = {});
/// The same through the cache of the objects that have one (cached_engine.h).
std::unique_ptr<ReadEngine> MakeRemoteEngine();

}  // namespace ringfeed
