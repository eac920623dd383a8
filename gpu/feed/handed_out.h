#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "gpu/feed/distributor.h"
#include "ringfeed/batch_origin.h"

namespace ringfeed {

/// Up to where a feed's batches were handed out with none missing, however far one device's loop is
/// ahead of another's. Thread safe.
class HandedOut {
 public:
  /// Each number once. As far ahead of the smallest one that is missing as slots let a device be.
  /// Nothing for an item of an earlier start.
  void Note(const FeedItem& item, std::uint64_t start);
  /// How often Reset was called.
  std::uint64_t starts() const;
  /// Of the last batch all of whose rows were handed out, and those of all before it: what a
  /// position is made of. None where that is no batch.
  std::optional<BatchOrigin> last() const;
  void Reset();

 private:
  struct Place {
    BatchOrigin origin;
    bool noted = false;
    bool completes = false;
  };

  mutable std::mutex mutex_;  ///< guards all
  std::deque<Place> ahead_;   ///< from next_ on
  std::uint64_t next_ = 0;    ///< the smallest number that is missing
  std::optional<BatchOrigin> last_;
  std::uint64_t starts_ = 0;
};

}  // namespace ringfeed
