#include "tools/feed/device_deliveries.h"

#include <algorithm>
#include <utility>

#include "ringfeed/tensor.h"
#include "tools/feed/hashing_parser.h"
#include "tools/report.h"

namespace ringfeed::tools {

void DeviceDeliveries::Expect(std::span<const std::uint64_t> row_digests) {
  const std::lock_guard lock(mutex_);
  expected_.insert(expected_.end(), row_digests.begin(), row_digests.end());
}

void DeviceDeliveries::Add(DeviceDelivery delivery,
                           const std::function<void(const HashSums& so_far)>& progress) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = delivery.number;
  waiting_.emplace(number, std::move(delivery));
  while (!waiting_.empty() && waiting_.begin()->first == next_) {
    Fold(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_;
  }
  progress(ledger_->totals());
}

void DeviceDeliveries::AddToLedger(std::span<const std::byte> hashes, std::uint64_t records) {
  Tensor tensor;
  tensor.shape = {static_cast<std::int64_t>(records), sizeof(HashedPayload)};
  tensor.data = hashes.data();
  tensor.bytes = hashes.size();
  ledger_->AddBatch({tensor});
}

void DeviceDeliveries::Fold(const DeviceDelivery& delivery) {
  if (options_.compare) Compare(delivery);
  if (!options_.row_by_row || !options_.hashes) {
    return AddToLedger(delivery.hashes, delivery.records);
  }
  const std::span<const std::byte> hashes = delivery.hashes;
  for (std::uint64_t record = 0; record < delivery.records; ++record) {
    AddToLedger(hashes.subspan(record * sizeof(HashedPayload), sizeof(HashedPayload)), 1);
  }
}

void DeviceDeliveries::Compare(const DeviceDelivery& delivery) {
  for (const std::uint64_t digest : delivery.row_digests) {
    const bool equal = !expected_.empty() && expected_.front() == digest;
    if (!equal && difference_.empty()) {
      difference_ = "row " + CountText(rows_) + ", in batch " + CountText(delivery.number) +
                    ", is not on its device what was read";
    }
    if (!expected_.empty()) expected_.pop_front();
    ++rows_;
  }
}

std::uint64_t DeviceDeliveries::batches() const {
  const std::lock_guard lock(mutex_);
  return next_;
}

std::string DeviceDeliveries::Difference(bool complete) const {
  const std::lock_guard lock(mutex_);
  if (!difference_.empty() || !complete || expected_.empty()) return difference_;
  return CountText(expected_.size()) + " rows that were read came to no device";
}

}  // namespace ringfeed::tools
