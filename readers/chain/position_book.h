#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "readers/engine/plan/indexed_source.h"
#include "readers/order/plan_clock.h"
#include "readers/order/position.h"
#include "ringfeed/batch_origin.h"

namespace ringfeed {

/// Where a run of a chain begins.
struct Beginning {
  RunStart start{};
  ChainPosition delivered{};  ///< what was handed out before the run
  std::string how{};          ///< the chain came there, in words
  /// `delivered` is what a chain says that read up to there. If false, what is left out depends on
  /// the records, and its end is known only after they are read.
  bool settled = true;
};

/// Keeps the place of a chain: where its run began, and what was handed out since. Within a run the
/// position only moves forward. It counts what was handed out, not what was read ahead or looked
/// at. The chain's mutex guards it.
///
/// `of` tells the run that a call is about. What is said of another run than the current one does
/// not count.
class PositionBook {
 public:
  using Start = std::shared_ptr<const RunStart>;

  /// `source_pass`: the pass of a data set that the first run begins in.
  explicit PositionBook(std::uint64_t source_pass);

  /// Of the run, or of the first one to come. It does not change during a run.
  Start start() const { return {began_, &began_->start}; }
  bool IsOf(const Start& of) const { return of.get() == &began_->start; }
  const Beginning& began() const { return *began_; }
  /// Only batch and mark count.
  const ChainPosition& delivered() const { return delivered_; }
  /// Batches that were handed out of a step after that: a position counts whole steps alone.
  std::uint64_t pieces() const {
    return next_piece_ > delivered_.batch ? next_piece_ - delivered_.batch : 0;
  }

  /// The run is about to be made: this is how it reads.
  void Complete(bool by_index, std::uint64_t source_pass);
  /// Nothing that was read of the run, and is not handed out, will be.
  void ForgetRead();
  /// The next run begins there.
  void Begin(Beginning beginning);

  // What was handed out.

  void NoteDelivered(const Start& of, const BatchOrigin& last);
  /// A batch came of which nothing is shown. It counts after something after it is seen, so that a
  /// look ahead moves no position on.
  void PassOver(const Start& of, const OrderSpan& span, std::span<const std::uint64_t> damaged);
  /// The end is seen: what was passed over before it counts.
  void CountPassedOver(const Start& of);
  /// The damaged records of batches that were passed over: of the next batch that is shown.
  std::vector<std::uint64_t> TakePassedDamage();
  /// The end of what the run leaves out is known, or not yet. Whether the position is.
  bool Settle(const std::optional<PlanPosition>& left_out);

  // Batches that are settled after they were read. What is passed over does not count before them.

  void AddUnsettled(const Start& of) { unsettled_ += IsOf(of) ? 1 : 0; }
  void NoteSettled(const Start& of) { unsettled_ -= IsOf(of) ? 1 : 0; }
  /// As PassOver, of a batch of which nothing is left after it was settled; and TakePassedDamage.
  void PassOverLate(const Start& of, const OrderSpan& span, std::vector<std::uint64_t> damaged);
  std::vector<std::uint64_t> TakeLateDamage();
  /// A batch with that number was found to fail after it was read: nothing after it counts as read.
  /// False if that is known of an earlier batch, or it is of another run.
  bool FailAt(const Start& of, std::uint64_t sequence);

 private:
  void MoveTo(const ChainPosition& place);
  void NotePassed(const OrderSpan& span);

  std::shared_ptr<Beginning> began_;
  ChainPosition delivered_;
  std::uint64_t next_piece_ = 0;              ///< after the last batch that is a piece of a step
  std::optional<ChainPosition> passed_;       ///< after the last batch that was passed over
  std::vector<std::uint64_t> passed_damage_;  ///< of batches before one that is read next
  std::vector<std::uint64_t> late_damage_;    ///< of batches before one that is settled next
  std::size_t unsettled_ = 0;                 ///< batches that were read, and are not settled
  std::optional<std::uint64_t> failed_at_;    ///< the first batch that FailAt was told
};

}  // namespace ringfeed
