#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Places of a pass that has no end.
inline constexpr std::uint64_t kEndlessPlaces = std::uint64_t{1} << 62;

/// A place of one pass.
struct OrderPlace {
  std::uint64_t pass = 0;
  std::uint64_t place = 0;
  friend bool operator==(const OrderPlace&, const OrderPlace&) = default;
};

/// One step of an order that is known without reading: gives the numbers of records in the order of
/// their delivery, from any place on. Cursors stand on cursors as decorators do. One thread at a
/// time.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  /// Places of that pass; kEndlessPlaces: it has no end. Never changes for the same pass.
  virtual std::uint64_t Places(std::uint64_t pass) = 0;
  /// Goes to `place` (at most Places(pass)) of `pass`. Costs no more than a window or block of
  /// draws, whatever the place; nothing of a data file is read.
  virtual Status Seek(std::uint64_t pass, std::uint64_t place) = 0;
  /// From where the cursor at the bottom of the chain is read after Seek(pass, place): its pass and
  /// place, never behind the place that is sought. Goes nowhere.
  virtual OrderPlace Origin(std::uint64_t pass, std::uint64_t place) { return {pass, place}; }
  /// Fills `rows` with what stands at the next places of this pass; *count is less only at its end.
  virtual Status Next(std::span<RowNumber> rows, std::size_t* count) = 0;
  /// Whether Seek costs no more than a few dozen rows of Next: then who needs only some places
  /// seeks over the others, else he takes them and lets them fall.
  virtual bool SeeksAtOnce() const { return false; }
};

}  // namespace ringfeed
