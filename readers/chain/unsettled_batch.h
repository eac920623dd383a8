#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/pending_copy.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/instance.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What is left of a batch after its checksums were taken.
struct SettledBatch {
  enum class Kind : std::uint8_t {
    kWhole,   ///< nothing changed
    kOther,   ///< rows of it are lost, or nothing is pending any more: `tensors` has what is left
    kNothing  ///< nothing of it is left, so it is not handed out
  };
  Kind kind = Kind::kWhole;
  Instance tensors;    ///< of kOther
  BatchOrigin origin;  ///< of kWhole and kOther
  Status failure;      ///< not OK: the chain fails after this batch
};

/// A batch that was read, whose checksums are not all taken: it is settled before it is handed out.
/// One thread at a time settles batches, in the order that they were read in, while their chain
/// lives and reads on. A batch that is dropped without that counts as not read.
class UnsettledBatch {
 public:
  virtual ~UnsettledBatch() = default;
  /// Of the batch's pending copies: valid until it is settled.
  virtual std::span<const PendingSum> sums() const = 0;
  /// Whether it is handed out even if no row of it is left.
  virtual bool IsShownEmpty() const = 0;
  /// `bad`: numbers of sums that did not match on the device. The CPU takes them once more, and has
  /// the last word. May block while the chain's threads end.
  virtual SettledBatch Settle(std::span<const std::uint32_t> bad) = 0;
};

/// A batch whose receiver does the rest of the work on it.
struct SuppliedBatch {
  Instance tensors{};
  /// What is to be copied into the batch: rows of its fields that are still in the memory they were
  /// read into, in the order of their places. Valid as long as the batch is held.
  std::span<const PendingCopy> pending{};
  BatchOrigin origin{};  ///< of a reader's batches; of an unsettled one not yet
  /// If not null: checksums of the batch are still to be computed before anything else sees it.
  std::shared_ptr<UnsettledBatch> unsettled{};
};

}  // namespace ringfeed
