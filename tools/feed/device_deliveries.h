#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/instance.h"
#include "tools/feed/delivery_ledger.h"

namespace ringfeed::tools {

/// Digests a row's values in all fields into one number, so that a copied row can be compared with
/// its source: XXH3-64 of its bytes and their number, field by field. For the first `rows` rows of
/// a batch; `data[f]` points to the values of `tensors[f]`, in host memory. If the tensors differ
/// in their rows, one number for the whole batch.
std::vector<std::uint64_t> RowDigests(std::span<const Tensor> tensors,
                                      std::span<const std::byte* const> data, std::uint64_t rows);
/// For a batch in host memory, all rows.
std::vector<std::uint64_t> RowDigests(const Instance& batch);

/// How many steps of a tensor's first dimension its first `rows` rows have.
std::uint64_t StepsOf(const Tensor& tensor, std::uint64_t rows);

/// A batch, or a part of one, as it arrived on a device.
struct DeviceDelivery {
  std::uint64_t number = 0;  ///< over all devices
  std::uint64_t records = 0;
  std::vector<std::byte> hashes;           ///< a HashedPayload of each record, copied back
  std::vector<std::uint64_t> row_digests;  ///< of each row, over all fields copied back
};

/// Brings the deliveries of several devices into one order, and into a ledger: up to the first
/// batch that did not arrive. Thread safe.
class DeviceDeliveries {
 public:
  struct Options {
    bool hashes = false;      ///< deliveries have hashes
    bool compare = false;     ///< compare rows with what was read
    bool row_by_row = false;  ///< in the ledger: if a batch may hold rows of two passes
  };
  DeviceDeliveries(DeliveryLedger* ledger, Options options) : ledger_(ledger), options_(options) {}

  /// Rows that were read, in order; call it before they are delivered.
  void Expect(std::span<const std::uint64_t> row_digests);
  /// Returns what `progress` does, which is called by one thread at a time.
  bool Add(DeviceDelivery delivery, const FeedProgress& progress);

  std::uint64_t batches() const;
  /// "" if every row arrived as it was read; with `complete`, also if none is missing.
  std::string Difference(bool complete) const;

 private:
  void Fold(const DeviceDelivery& delivery);
  void Compare(const DeviceDelivery& delivery);

  DeliveryLedger* const ledger_;
  const Options options_;
  mutable std::mutex mutex_;                         ///< guards what follows, and the ledger
  std::map<std::uint64_t, DeviceDelivery> waiting_;  ///< wait for an earlier one
  std::uint64_t next_ = 0;
  std::deque<std::uint64_t> expected_;
  std::uint64_t rows_ = 0;
  std::string difference_;
};

}  // namespace ringfeed::tools
