#include "gpu/feed/batch_settling.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "ringfeed/data_balance.h"

namespace ringfeed {
namespace {

/// Numbers of the sums that do not match. `taken` has the device's result for each of `parts`, one
/// u32 after the other.
std::vector<std::uint32_t> MismatchesOf(std::span<const PendingSum> sums,
                                        std::span<const TakenSum> parts, const std::byte* taken) {
  // The part of the stored sum that each still lacks.
  std::vector<std::uint32_t> missing;
  missing.reserve(sums.size());
  for (const PendingSum& sum : sums) missing.push_back(sum.of_copies);
  for (const TakenSum& part : parts) {
    std::uint32_t crc = 0;
    std::memcpy(&crc, taken, sizeof(crc));
    missing[part.sum] ^= ShiftCrc32c(crc, part.behind);
    taken += sizeof(crc);
  }
  std::vector<std::uint32_t> bad;
  for (std::uint32_t i = 0; i < missing.size(); ++i) {
    if (missing[i] != 0) bad.push_back(i);
  }
  return bad;
}

/// The same if the device computed none.
std::vector<std::uint32_t> MismatchesByCpu(std::span<const PendingSum> sums) {
  std::vector<std::uint32_t> bad;
  for (std::uint32_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].Matches()) bad.push_back(i);
  }
  return bad;
}

}  // namespace

bool BatchSettling::any_waits() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const DeviceSlot& slot) { return slot.waits; });
}

bool BatchSettling::MustWait(DeviceSlot* slot) {
  FeedItem& item = slot->item;
  const bool has_sums = item.unsettled != nullptr && !item.unsettled->sums().empty();
  slot->waits = has_sums || slot->stage_may_fail || any_waits();
  if (slot->waits || item.unsettled == nullptr) return slot->waits;
  item.origin = item.unsettled->Settle({}).origin;
  item.unsettled.reset();
  item.number = settled_++;
  return false;
}

std::vector<std::uint32_t> BatchSettling::BadSums(const DeviceSlot& slot) {
  const std::span<const PendingSum> sums = slot.item.unsettled->sums();
  const CopyPlan& plan = slot.plan;
  if (plan.rows().taken_sums().empty()) return MismatchesByCpu(sums);
  const std::byte* const taken = slot.staging.data + plan.rows().sums_staging_at();
  backend_->NoteHostRead(taken, plan.rows().sums_bytes(), "sums");
  for (const PendingSum& sum : sums) {
    summed_bytes_.fetch_add(sum.bytes, std::memory_order_relaxed);
  }
  return MismatchesOf(sums, plan.rows().taken_sums(), taken);
}

BatchSettling::Settled BatchSettling::Settle(DeviceSlot* slot) {
  FeedItem& item = slot->item;
  SettledBatch settled = item.unsettled->Settle(BadSums(*slot));
  item.unsettled.reset();
  if (settled.kind == SettledBatch::Kind::kNothing) {
    nothing_.fetch_add(1, std::memory_order_relaxed);
    return {settled.kind, settled.failure};
  }
  item.origin = std::move(settled.origin);
  item.number = settled_++;
  if (settled.kind == SettledBatch::Kind::kOther) {
    item.pending = {};
    item.batch = std::move(settled.tensors);
    item.rows = item.batch.empty() ? 0 : static_cast<std::uint64_t>(RowsOf(item.batch.front()));
    item.valid_rows = item.rows;
  }
  return {settled.kind, settled.failure};
}

void BatchSettling::Reset() {
  for (DeviceSlot& slot : slots_) {
    slot.waits = false;
    slot.item.unsettled.reset();
  }
  settled_ = 0;
  nothing_.store(0, std::memory_order_relaxed);
}

}  // namespace ringfeed
