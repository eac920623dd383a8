// Batches that came unsettled: the device computes their sums, the host combines them and settles
// each batch, in their order, before its lease. The feeding thread does all of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gpu/feed/device_lane.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/taken_sums.h"
#include "readers/chain/unsettled_batch.h"
#include "ringfeed/data_balance.h"

namespace ringfeed {

std::span<const PendingSum> DeviceLane::SumsOnDevice(const Slot& slot) const {
  const bool any = sums_on_device_ && slot.item.unsettled != nullptr && !slot.item.pending.empty();
  return any ? slot.item.unsettled->sums() : std::span<const PendingSum>();
}

bool DeviceLane::MustWait(Slot* slot) {
  if (slot->item.unsettled == nullptr) return false;
  if (waiting_ == 0 && slot->item.unsettled->sums().empty()) {
    slot->item.origin = slot->item.unsettled->Settle({}).origin;
    slot->item.unsettled.reset();
    slot->item.number = handed_++;
    return false;
  }
  slot->waits = true;
  ++waiting_;
  return true;
}

void DeviceLane::HandOnSeen(std::size_t number) {
  Slot* const slot = slots_[number].get();
  if (slot->item.unsettled != nullptr) return Settle(number, BadSums(*slot));
  // It was copied again.
  SeeCopied(slot);
  Push(number);
  EndBehindReady();
}

Status DeviceLane::FetchSums(const Slot& slot) {
  const std::size_t bytes = slot.plan.sums_bytes();
  if (bytes == 0) return {};
  return CopyBack(pins_.get(), backend_.get(), transform_stream_,
                  slot.staging.data + slot.plan.sums_staging_at(),
                  slot.memory + slot.plan.sums_at(), bytes);
}

std::vector<std::uint32_t> DeviceLane::BadSums(const Slot& slot) {
  const std::span<const PendingSum> sums = slot.item.unsettled->sums();
  const CopyPlan& plan = slot.plan;
  if (plan.taken_sums().empty()) return MismatchesByCpu(sums);
  const std::byte* const taken = slot.staging.data + plan.sums_staging_at();
  backend_->NoteHostRead(taken, plan.sums_bytes(), "sums");
  for (const PendingSum& sum : sums) {
    summed_bytes_.fetch_add(sum.bytes, std::memory_order_relaxed);
  }
  return MismatchesOf(sums, plan.taken_sums(), taken);
}

void DeviceLane::Settle(std::size_t number, std::span<const std::uint32_t> bad) {
  Slot* const slot = slots_[number].get();
  SettledBatch settled = slot->item.unsettled->Settle(bad);
  slot->item.unsettled.reset();
  if (!settled.failure.ok()) {
    // The batches after it are not handed out.
    discards_ = ended_ = closes_ = true;
    end_ = settled.failure;
    inbox_->Kill(settled.failure);
  }
  if (settled.kind == SettledBatch::Kind::kNothing) {
    SeeCopied(slot);
    free_.push_back(number);
    given_.fetch_sub(1, std::memory_order_relaxed);
    nothing_.fetch_add(1, std::memory_order_relaxed);
    return EndBehindReady();
  }
  slot->item.origin = std::move(settled.origin);
  slot->item.number = handed_++;
  if (settled.kind == SettledBatch::Kind::kWhole) {
    SeeCopied(slot);
    Push(number);
    return EndBehindReady();
  }
  slot->item.pending = {};
  slot->item.batch = std::move(settled.tensors);
  slot->item.rows = slot->item.valid_rows =
      slot->item.batch.empty() ? 0 : static_cast<std::uint64_t>(RowsOf(slot->item.batch.front()));
  if (const Status status = CopyAgain(number); !status.ok()) Fail(status);
}

Status DeviceLane::CopyAgain(std::size_t number) {
  Slot* const slot = slots_[number].get();
  in_flight_bytes_ -= slot->plan.copied_bytes();
  slot->copying = false;
  group_.assign(1, number);
  pieces_.clear();
  // If the CPU computed the sums, only the copy was seen done: kernels may still use the memory.
  Status status;
  if (slot->ready != slot->copied) status = backend_->StreamWait(copy_stream_, slot->ready);
  if (status.ok()) status = Plan(slot, left_rows_);
  if (status.ok()) status = Fit(slot);
  if (status.ok()) status = Stage(slot);
  if (!status.ok()) return status;
  AddCopies(*slot);
  status = Copy();
  if (status.ok()) status = Finish(slot);
  if (!status.ok()) return status;
  copies_.push_front(number);
  pace_.NoteEnqueued(backend_->NowNanos(), slot->plan.copied_bytes(), 1);
  return {};
}

void DeviceLane::EndBehindReady() {
  if (closes_ && (waiting_ == 0 || discards_)) ready_->Close(end_);
}

}  // namespace ringfeed
