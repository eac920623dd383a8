#pragma once

#include <cstdint>
#include <span>

#include "base/pending_copy.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/instance.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What became of a batch once its checksums were taken.
struct SettledBatch {
  enum class Kind : std::uint8_t {
    kWhole,   ///< it is what it was
    kOther,   ///< rows of it are lost, or nothing is pending any more: `tensors` has what is left
    kNothing  ///< nobody is to see it: nothing of it is left
  };
  Kind kind = Kind::kWhole;
  Instance tensors;    ///< of kOther
  BatchOrigin origin;  ///< of kWhole and kOther
  Status failure;      ///< not OK: what follows it, and nothing else ever does
};

/// A batch that was read, whose checksums are not all taken: before anybody sees it, it is settled.
/// Batches are settled in the order that they were read in, by one thread at a time, while the
/// chain that they are of lives and reads on. Whoever drops one without that has not read it.
class UnsettledBatch {
 public:
  virtual ~UnsettledBatch() = default;
  /// Of the batch's pending copies: valid until it is settled.
  virtual std::span<const PendingSum> sums() const = 0;
  /// `bad`: numbers of sums that did not match on the device. The CPU takes them once more, and has
  /// the last word. May block while the chain's threads end.
  virtual SettledBatch Settle(std::span<const std::uint32_t> bad) = 0;
};

}  // namespace ringfeed
