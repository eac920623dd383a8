#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "ringfeed/source.h"

namespace ringfeed {

struct SourceLimits {
  int retries = 0;
  std::int64_t read_timeout_ms = 0;  ///< 0: none
  /// Counts the reads that took longer; not null if there is a timeout.
  std::shared_ptr<std::atomic<std::uint64_t>> given_up_reads{};
};

/// A user's source as the readers see it. Its name and version are asked once. If its functions
/// throw, that becomes a failed Status, or Error from Size. A read that claims more bytes than it
/// was asked for fails. After kIoError, which is also that of a read that takes longer than the
/// timeout, a read is tried `retries` times more, with growing pauses. Throws Error if name() or
/// Version() does.
std::shared_ptr<Source> Guarded(std::shared_ptr<Source> source, const SourceLimits& limits = {});
/// The same for a stream. What its Close throws is dropped, since nothing reads the stream any
/// more.
std::unique_ptr<StreamSource> Guarded(std::unique_ptr<StreamSource> stream);

}  // namespace ringfeed
