#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ringfeed/device_feed.h"
#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {

/// A feed on a backend, as a training loop uses it: each batch is checked by its checksum, which
/// the device takes.
class FeedConformance : public BackendConformance {
 protected:
  /// Options for one device of the test's backend.
  FeedOptions OnOneDevice();
  /// Another backend of the same kind, as a second library in the process would open it.
  std::shared_ptr<DeviceBackend> OpenAnother();

  /// Takes up to `most` batches; each goes through a stream that is busy for `busy_ns` before it
  /// looks at the batch, and is released at once. The checksums of the first tensor, in order.
  std::vector<std::uint64_t> Train(DeviceFeed* feed, std::size_t most, std::int64_t busy_ns = 0);
};

/// The same by several threads: only backends that all threads may call are instantiated with it.
class ThreadedFeedConformance : public FeedConformance {};

}  // namespace ringfeed
