#include "gpu/feed/batch_settling.h"

namespace ringfeed {

bool BatchSettling::MustWait(DeviceSlot* slot) {
  SettlingBatch* const batch = slot->item.settling.get();
  unfilled_ = slot->item.number + 1;
  const bool is_whole = batch == nullptr || (batch->is_settled() &&
                                             batch->settled().kind == SettledBatch::Kind::kWhole);
  if (is_whole && waiting_.empty() && !slot->stage_may_fail) {
    (void)Apply(slot);
    return false;
  }
  slot->waits = true;
  slot->seen = false;
  waiting_.push_back(slot);
  return true;
}

void BatchSettling::NoteSeen(DeviceSlot* slot) {
  slot->seen = true;
  const FeedItem& item = slot->item;
  // A batch that was copied again is settled.
  if (item.settling == nullptr || item.settling->is_settled()) return;
  backend_->NoteHandOver(order_);
  if (!item.takes_sums) return order_->NoteSeen(item.settling.get(), nullptr);
  if (!slot->sums_taken) return order_->NoteSeenByCpu(item.settling.get());
  const LeftRowPlan& rows = slot->plan.rows();
  if (rows.summed().empty()) return order_->NoteSeen(item.settling.get(), nullptr);
  const std::byte* const taken = slot->staging.data + rows.sums_staging_at();
  backend_->NoteHostRead(taken, rows.sums_bytes(), "sums");
  summed_bytes_.fetch_add(rows.summed_bytes(), std::memory_order_relaxed);
  order_->NoteSeen(item.settling.get(), taken);
}

DeviceSlot* BatchSettling::Due() const {
  if (waiting_.empty()) return nullptr;
  DeviceSlot* const slot = waiting_.front();
  const SettlingBatch* const batch = slot->item.settling.get();
  return slot->seen && (batch == nullptr || batch->is_settled()) ? slot : nullptr;
}

SettledBatch::Kind BatchSettling::Apply(DeviceSlot* slot) {
  const std::shared_ptr<SettlingBatch> batch = std::exchange(slot->item.settling, nullptr);
  if (batch == nullptr) return SettledBatch::Kind::kWhole;
  backend_->NoteTakeOver(order_);
  const SettledBatch& settled = batch->settled();
  if (settled.kind == SettledBatch::Kind::kNothing) return settled.kind;
  slot->item.origin = settled.origin;
  slot->item.number -= batch->nothing_before();
  if (settled.kind == SettledBatch::Kind::kOther) {
    slot->item.Replace(settled.tensors, batch->repeated_rows());
  }
  return settled.kind;
}

std::deque<DeviceSlot*> BatchSettling::Drop() {
  for (DeviceSlot* const slot : waiting_) slot->waits = false;
  unfilled_ = 0;
  return std::exchange(waiting_, {});
}

}  // namespace ringfeed
