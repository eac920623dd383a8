#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "io/timed_stop.h"
#include "readers/engine/plan/execution_plan.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A stream that is opened again after a writer ends, as often or for as long as its input says.
/// Used by one thread. Read and Reopen wait until something comes, or `stop` is requested.
class ReopenedStream {
 public:
  /// The stream of `input` outlives it.
  ReopenedStream(const StreamInput& input, std::stop_token stop);

  const std::string& name() const { return name_; }
  /// Whether it may be opened again at all.
  bool reopens() const { return reopens_; }

  /// As StreamSource::Read. If no writer comes in time, that is the stream's end: *got is 0, and
  /// the status OK.
  Status Read(std::span<std::byte> buffer, std::size_t* got);
  /// At the end: whether the stream was opened once more. If not, *status says why, OK for its end.
  bool Reopen(Status* status);

 private:
  StreamSource* const stream_;
  const std::string name_;
  const bool reopens_;
  const std::uint64_t limit_;
  const double until_;  ///< seconds without a byte; in place of the limit, if not 0
  const std::stop_token stop_;
  std::uint64_t reopened_ = 0;
  bool is_silent_ = false;              ///< it was opened again, and no byte came since
  std::unique_ptr<TimedStop> silence_;  ///< since a writer ended, until the next one sends
};

}  // namespace ringfeed
