// Batches whose checksums are taken by the code that copies their bytes.
//
// A feed reads batches ahead, has its device take the checksums, and settles the batches in their
// order, on its feeding thread, while its reading thread reads on. What a read does once it has a
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
  Unsettled(ReaderSession* session, Taken taken, BatchBuffer* slot,
            std::shared_ptr<const void> owner)
      : session_(session), taken_(std::move(taken)), slot_(slot), owner_(std::move(owner)) {
    const std::lock_guard lock(session_->mutex_);
    passed_over_.swap(session_->passed_over_);
    if (taken_.generation == session_->generation_) ++session_->unsettled_;
  }
  Unsettled(const Unsettled&) = delete;
  Unsettled& operator=(const Unsettled&) = delete;

  std::span<const PendingSum> sums() const override { return slot_->pending_sums; }

  SettledBatch Settle(std::span<const std::uint32_t> bad) override {
    SettledBatch settled = SettledOf(bad);
    NoteSettled();
    return settled;
  }

 private:
  SettledBatch SettledOf(std::span<const std::uint32_t> bad) {
    SettledBatch settled;
    if (!bad.empty()) {
      settled.kind = SettledBatch::Kind::kOther;
      Lose(bad, &settled.failure);
    }
    Origin origin = OriginOf(taken_, *slot_);
    std::vector<std::uint64_t>& late = session_->passed_late_;
    origin.damaged.insert(origin.damaged.begin(), passed_over_.begin(), passed_over_.end());
    origin.damaged.insert(origin.damaged.begin(), late.begin(), late.end());
    late.clear();
    // An empty batch before a failure is not one that was asked for.
    const bool shows = session_->plan_.shows_empty_batches() && settled.failure.ok();
    if (slot_->rows == 0 && !shows) {
      settled.kind = SettledBatch::Kind::kNothing;
      if (settled.failure.ok()) session_->PassOverLate(*taken_.run, origin);
      return settled;
    }
    settled.origin = session_->OriginOf(origin);
    session_->NoteDelivered(origin, settled.origin);
    session_->batches_.fetch_add(1, std::memory_order_relaxed);
    session_->batch_bytes_.fetch_add(slot_->payload_bytes.load(std::memory_order_relaxed),
                                     std::memory_order_relaxed);
    if (settled.kind == SettledBatch::Kind::kOther) {
      settled.tensors = taken_.run->MakeInstance(*slot_, owner_);
      settled.tensors.set_names(session_->names_);
    }
    return settled;
  }

  /// After the last one, what was passed over counts, if the end was seen meanwhile.
  void NoteSettled() {
    {
      const std::lock_guard lock(session_->mutex_);
      if (taken_.generation != session_->generation_ || --session_->unsettled_ > 0) return;
      if (session_->end_ns_.load(std::memory_order_relaxed) == 0) return;
    }
    session_->CountPassedOver(*taken_.run);
  }

  void Lose(std::span<const std::uint32_t> bad, Status* failure) {
    taken_.run->LosePayloads(bad, slot_);
    if (!slot_->failed_payload_pass) return;
    *failure = slot_->status;
    session_->FailBehind(*taken_.run, *slot_);
  }

  ReaderSession* const session_;
  const Taken taken_;  ///< without its delivery
  BatchBuffer* const slot_;
  const std::shared_ptr<const void> owner_;
  std::vector<std::uint64_t> passed_over_;  ///< in front of it
};

bool ReaderSession::SettleByCpu(const Taken& taken, BatchBuffer* slot) {
  std::vector<std::uint32_t> all(slot->pending_sums.size());
  std::iota(all.begin(), all.end(), 0U);
  taken.run->LosePayloads(all, slot);
  if (slot->rows > 0 || !slot->status.ok() || plan_.shows_empty_batches()) return true;
  PassOverLate(*taken.run, OriginOf(taken, *slot));
  const std::lock_guard lock(mutex_);
  passed_over_.insert(passed_over_.end(), passed_late_.begin(), passed_late_.end());
  passed_late_.clear();
  return false;
}

std::shared_ptr<UnsettledBatch> ReaderSession::MakeUnsettled(Taken taken, BatchBuffer* slot,
                                                             std::shared_ptr<const void> owner) {
  return std::make_shared<Unsettled>(this, std::move(taken), slot, std::move(owner));
}

void ReaderSession::FailBehind(Run& run, const BatchBuffer& slot) {
  const std::lock_guard one_at_a_time(ending_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (run_.get() != &run || (failed_at_ && *failed_at_ <= slot.sequence)) return;
    failed_at_ = slot.sequence;
    failure_ = slot.status;  // replaces the failure of a later batch
    passed_.reset();
    turn_.Fail();
  }
  run.EndBehind(slot);
}

void ReaderSession::PassOverLate(const Run& run, const Origin& origin) {
  passed_late_ = origin.damaged;
  const std::lock_guard lock(mutex_);
  const std::uint64_t behind = start_->batch + origin.span.number + 1;
  if (run_.get() != &run || origin.span.uncounted > 0) return;
  if (passed_ && passed_->batch >= behind) return;
  passed_.emplace();
  passed_->batch = behind;
  passed_->mark = origin.span.end;
}

std::string ReaderSession::WhySumsAreEarly() const {
  const std::lock_guard lock(mutex_);
  return run_ != nullptr ? run_->why_sums_are_early() : plan_.WhySumsAreEarly();
}

}  // namespace ringfeed
