#pragma once

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>

#include "ringfeed/reader.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Where records come from that are made in memory, one after another. Used by one thread.
class RecordProvider {
 public:
  virtual ~RecordProvider() = default;
  /// The next record, valid until the next call. kFailed puts the reason into *status. What it
  /// throws is a failure too.
  virtual ReadResult Next(std::span<const std::byte>* record, std::stop_token stop,
                          Status* status) = 0;
  /// Whether the next call will not wait.
  virtual bool Ready() const = 0;
  /// Starts the next pass; false where that cannot be done.
  virtual bool ReInit() = 0;
  /// No more is asked for before ReInit. It keeps nothing that others may wait for.
  virtual void LetGo() {}
  virtual std::string name() const = 0;
};

}  // namespace ringfeed
