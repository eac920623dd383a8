// Batches whose checksums are taken by the code that copies their bytes.
//
// A feed reads batches ahead, has its devices take the checksums, and settles the batches in their
// order, on its feeding threads, while its reading thread reads on. What a read does once it has a
// batch (its origin, the chain's position, the counts) is done when it is settled. So what is found
// then looks as if framing had found it. docs/internals/DEVICES.md says why.

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "readers/chain/session.h"

namespace ringfeed {

/// What ReadNext does with a batch after taking it, put off until the batch is settled. One that is
/// never settled may outlive the session.
class ReaderSession::Unsettled final : public UnsettledBatch {
 public:
  Unsettled(ReaderSession* session, StartedRun of, BatchBuffer* slot,
            std::shared_ptr<const void> owner)
      : session_(session), of_(std::move(of)), slot_(slot), owner_(std::move(owner)) {
    const std::lock_guard lock(session_->mutex_);
    passed_damage_ = session_->book_.TakePassedDamage();
    session_->book_.AddUnsettled(of_.start);
  }
  Unsettled(const Unsettled&) = delete;
  Unsettled& operator=(const Unsettled&) = delete;

  std::span<const PendingSum> sums() const override { return slot_->pending_sums; }

  bool IsShownEmpty() const override { return session_->plan_.shows_empty_batches(); }

  SettledBatch Settle(std::span<const std::uint32_t> bad) override {
    SettledBatch settled = SettledOf(bad);
    const std::lock_guard lock(session_->mutex_);
    session_->book_.NoteSettled(of_.start);
    if (session_->counters_.has_ended()) session_->book_.CountPassedOver(of_.start);
    return settled;
  }

 private:
  SettledBatch SettledOf(std::span<const std::uint32_t> bad) {
    SettledBatch settled;
    if (!bad.empty()) {
      settled.kind = SettledBatch::Kind::kOther;
      Lose(bad, &settled.failure);
    }
    const std::vector<std::uint64_t> passed = PassedDamage();
    // An empty batch before a failure is not one that was asked for.
    const bool shows = IsShownEmpty() && settled.failure.ok();
    if (slot_->rows == 0 && !shows) {
      settled.kind = SettledBatch::Kind::kNothing;
      if (settled.failure.ok()) PassOver(passed);
      return settled;
    }
    settled.origin = OriginOf(session_->plan_, of_, *slot_, passed);
    session_->NoteDelivered(of_.start, settled.origin);
    session_->counters_.NoteDelivered(*slot_);
    if (settled.kind == SettledBatch::Kind::kOther) {
      settled.tensors = of_.run->MakeInstance(*slot_, owner_);
      settled.tensors.set_names(session_->names_);
    }
    return settled;
  }

  /// Of the batches before it of which nothing is shown.
  std::vector<std::uint64_t> PassedDamage() {
    const std::lock_guard lock(session_->mutex_);
    std::vector<std::uint64_t> damaged = session_->book_.TakeLateDamage();
    damaged.insert(damaged.end(), passed_damage_.begin(), passed_damage_.end());
    return damaged;
  }

  void PassOver(std::vector<std::uint64_t> damaged) {
    damaged.insert(damaged.end(), slot_->damaged_numbers.begin(), slot_->damaged_numbers.end());
    const std::lock_guard lock(session_->mutex_);
    session_->book_.PassOverLate(of_.start, slot_->span, std::move(damaged));
  }

  void Lose(std::span<const std::uint32_t> bad, Status* failure) {
    of_.run->LosePayloads(bad, slot_);
    if (!slot_->failed_payload_pass) return;
    *failure = slot_->status;
    session_->FailAfter(of_, *slot_);
  }

  ReaderSession* const session_;
  const StartedRun of_;
  BatchBuffer* const slot_;
  const std::shared_ptr<const void> owner_;
  std::vector<std::uint64_t> passed_damage_;  ///< of batches before it
};

std::shared_ptr<UnsettledBatch> ReaderSession::MakeUnsettled(const StartedRun& of,
                                                             BatchBuffer* slot,
                                                             std::shared_ptr<const void> owner) {
  return std::make_shared<Unsettled>(this, of, slot, std::move(owner));
}

bool ReaderSession::SettleByCpu(const StartedRun& of, BatchBuffer* slot) {
  std::vector<std::uint32_t> all(slot->pending_sums.size());
  std::iota(all.begin(), all.end(), 0U);
  of.run->LosePayloads(all, slot);
  if (slot->rows > 0 || !slot->status.ok() || plan_.shows_empty_batches()) return true;
  if (!plan_.batched) return false;
  const std::lock_guard lock(mutex_);
  book_.PassOver(of.start, slot->span, slot->damaged_numbers);
  return false;
}

void ReaderSession::FailAfter(const StartedRun& of, const BatchBuffer& slot) {
  const std::lock_guard one_at_a_time(ending_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (!book_.FailAt(of.start, slot.sequence)) return;
    takers_.FailInstead(slot.status);  // replaces the failure of a later batch
  }
  of.run->EndBehind(slot);
}

}  // namespace ringfeed
