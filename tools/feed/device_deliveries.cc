#include "tools/feed/device_deliveries.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/feed/hashing_parser.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

// Bytes of one step of the first dimension.
std::uint64_t StepBytes(const Tensor& tensor) {
  const auto steps = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape[0]);
  return steps == 0 ? 0 : tensor.bytes / steps;
}

std::uint64_t DigestOfWhole(std::span<const Tensor> tensors,
                            std::span<const std::byte* const> data) {
  std::uint64_t digest = 0;
  for (std::size_t f = 0; f < tensors.size(); ++f) {
    const std::array<std::uint64_t, 2> so_far = {digest, tensors[f].bytes};
    const std::uint64_t seed = XXH3_64bits(so_far.data(), sizeof so_far);
    digest = XXH3_64bits_withSeed(data[f], tensors[f].bytes, seed);
  }
  return digest;
}

}  // namespace

std::uint64_t StepsOf(const Tensor& tensor, std::uint64_t rows) {
  for (const std::span<const std::int64_t> level : tensor.lod) {
    rows = static_cast<std::uint64_t>(level[rows]);
  }
  return rows;
}

std::vector<std::uint64_t> RowDigests(std::span<const Tensor> tensors,
                                      std::span<const std::byte* const> data, std::uint64_t rows) {
  for (const Tensor& tensor : tensors) {
    if (RowsOfTensor(tensor) != RowsOfTensor(tensors[0])) return {DigestOfWhole(tensors, data)};
  }
  std::vector<std::uint64_t> digests(rows);
  for (std::size_t f = 0; f < tensors.size(); ++f) {
    const std::uint64_t step_bytes = StepBytes(tensors[f]);
    std::uint64_t begin = 0;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t end = StepsOf(tensors[f], row + 1) * step_bytes;
      const std::array<std::uint64_t, 2> so_far = {digests[row], end - begin};
      const std::uint64_t seed = XXH3_64bits(so_far.data(), sizeof so_far);
      digests[row] = XXH3_64bits_withSeed(data[f] + begin, end - begin, seed);
      begin = end;
    }
  }
  return digests;
}

std::vector<std::uint64_t> RowDigests(const Instance& batch) {
  std::vector<const std::byte*> data;
  for (const Tensor& tensor : batch) data.push_back(tensor.data);
  return RowDigests(batch, data, batch.empty() ? 0 : RowsOfTensor(batch[0]));
}

void DeviceDeliveries::Expect(std::span<const std::uint64_t> row_digests) {
  const std::lock_guard lock(mutex_);
  expected_.insert(expected_.end(), row_digests.begin(), row_digests.end());
}

bool DeviceDeliveries::Add(DeviceDelivery delivery, const FeedProgress& progress) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = delivery.number;
  waiting_.emplace(number, std::move(delivery));
  while (!waiting_.empty() && waiting_.begin()->first == next_) {
    Fold(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_;
  }
  return progress(ledger_->totals());
}

void DeviceDeliveries::Fold(const DeviceDelivery& delivery) {
  if (options_.compare) Compare(delivery);
  if (!options_.row_by_row || !options_.hashes) {
    return ledger_->AddRows(delivery.records, delivery.hashes);
  }
  const std::span<const std::byte> hashes = delivery.hashes;
  for (std::uint64_t record = 0; record < delivery.records; ++record) {
    ledger_->AddRows(1, hashes.subspan(record * sizeof(HashedPayload), sizeof(HashedPayload)));
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
