#include "gpu/feed/settling_order.h"

#include <cstring>
#include <utility>

namespace ringfeed {

SettlingBatch::SettlingBatch(std::shared_ptr<UnsettledBatch> unsettled, std::uint64_t number,
                             std::size_t items, MakeEven make_even)
    : unsettled_(std::move(unsettled)),
      number_(number),
      items_(items),
      make_even_(std::move(make_even)),
      to_see_(items),
      by_cpu_(items == 0) {
  missing_.reserve(sums().size());
  for (const PendingSum& sum : sums()) missing_.push_back(sum.of_copies);
}

std::vector<std::uint32_t> SettlingBatch::BadSums() const {
  std::vector<std::uint32_t> bad;
  for (std::uint32_t i = 0; i < missing_.size(); ++i) {
    if (by_cpu_ ? !sums()[i].Matches() : missing_[i] != 0) bad.push_back(i);
  }
  return bad;
}

std::shared_ptr<SettlingBatch> SettlingOrder::Add(std::shared_ptr<UnsettledBatch> unsettled,
                                                  std::uint64_t number, std::size_t items,
                                                  SettlingBatch::MakeEven make_even) {
  auto batch =
      std::make_shared<SettlingBatch>(std::move(unsettled), number, items, std::move(make_even));
  const std::lock_guard lock(mutex_);
  batches_.push_back(batch);
  SettleReady();
  return batch;
}

bool SettlingOrder::AwaitEmpty(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return emptied_.wait(lock, stop, [this] { return batches_.empty(); });
}

SettledBatch SettlingOrder::SettleByCpu(std::shared_ptr<UnsettledBatch> unsettled) {
  const SettlingBatch batch(std::move(unsettled), 0, 0);
  return batch.unsettled_->Settle(batch.BadSums());
}

void SettlingOrder::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

void SettlingOrder::NoteSeen(SettlingBatch* batch, const std::byte* taken) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; taken != nullptr && i < batch->missing_.size(); ++i) {
    std::uint32_t share = 0;
    std::memcpy(&share, taken + i * sizeof(share), sizeof(share));
    batch->missing_[i] ^= share;
  }
  Seen(batch);
}

void SettlingOrder::NoteSeenByCpu(SettlingBatch* batch) {
  const std::lock_guard lock(mutex_);
  batch->by_cpu_ = true;
  Seen(batch);
}

void SettlingOrder::Seen(SettlingBatch* batch) {
  --batch->to_see_;
  SettleReady();
}

void SettlingOrder::Lose(std::size_t lane, std::uint64_t from, const Status& status) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<SettlingBatch>& batch : batches_) {
    for (std::size_t i = 0; i < batch->items_ && batch->to_see_ > 0; ++i) {
      if (LaneOf(*batch, i) == lane && batch->number_ + i >= from) batch->lost_ = status;
    }
  }
  SettleReady();
}

void SettlingOrder::SettleReady() {
  const auto is_ready = [this](const SettlingBatch& batch) {
    return !failure_.ok() || !batch.lost_.ok() || batch.to_see_ == 0 || batch.sums().empty();
  };
  while (!batches_.empty() && is_ready(*batches_.front())) {
    const std::shared_ptr<SettlingBatch> batch = batches_.front();
    Settle(batch.get());
    batches_.pop_front();
    // Order: partner of is_settled.
    batch->is_settled_.store(true, std::memory_order_release);
    for (std::size_t i = 0; i < batch->items_; ++i) {
      lanes_[LaneOf(*batch, i)]->Wake();
    }
  }
  // Order: partner of has_failed.
  has_failed_.store(!failure_.ok(), std::memory_order_release);
  // Order: partner of is_empty.
  unsettled_.store(batches_.size(), std::memory_order_release);
  if (batches_.empty()) emptied_.notify_all();
  if (failure_.ok() && !(ended_ && batches_.empty())) return;
  for (LaneSleep* const lane : lanes_) lane->Wake();
}

void SettlingOrder::Settle(SettlingBatch* batch) {
  SettledBatch& settled = batch->settled_;
  if (failure_.ok()) failure_ = batch->lost_;
  if (failure_.ok()) {
    settled = batch->unsettled_->Settle(batch->BadSums());
    failure_ = settled.failure;
  } else {
    settled.kind = SettledBatch::Kind::kNothing;
  }
  batch->nothing_before_ = came_to_nothing();
  if (settled.kind != SettledBatch::Kind::kNothing && batch->make_even_) {
    batch->repeated_rows_ = batch->make_even_(&settled);
  }
  if (settled.kind != SettledBatch::Kind::kNothing) return;
  nothing_.fetch_add(batch->items_, std::memory_order_relaxed);
}

Status SettlingOrder::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<std::size_t> SettlingOrder::LanesOfFirst() const {
  std::vector<std::size_t> lanes;
  const std::lock_guard lock(mutex_);
  if (batches_.empty()) return lanes;
  const SettlingBatch& first = *batches_.front();
  for (std::size_t i = 0; i < first.items_; ++i) lanes.push_back(LaneOf(first, i));
  return lanes;
}

void SettlingOrder::LetGo() {
  const std::lock_guard lock(mutex_);
  batches_.clear();
  unsettled_.store(0, std::memory_order_relaxed);
}

void SettlingOrder::Reset() {
  LetGo();
  const std::lock_guard lock(mutex_);
  ended_ = false;
  failure_ = Status();
  has_failed_.store(false, std::memory_order_relaxed);
  nothing_.store(0, std::memory_order_relaxed);
}

}  // namespace ringfeed
