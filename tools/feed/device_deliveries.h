#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/instance.h"
#include "tools/feed/delivery_ledger.h"

namespace ringfeed::tools {

/// A row's values in all fields as one number, so that a row that was copied can be compared with
/// what it was: XXH3-64 of its bytes and their number, field by field. Of the first `rows` rows of
/// a batch; `data[f]` is where the values of `tensors[f]` are, in host memory. One number for all
/// of a batch whose tensors differ in their rows.
std::vector<std::uint64_t> RowDigests(std::span<const Tensor> tensors,
                                      std::span<const std::byte* const> data, std::uint64_t rows);
/// Of a batch in host memory, all rows.
std::vector<std::uint64_t> RowDigests(const Instance& batch);

/// The steps of a tensor's first dimension that its first `rows` rows have.
std::uint64_t StepsOf(const Tensor& tensor, std::uint64_t rows);

/// A batch, or a part of one, as it arrived on a device.
struct DeviceDelivery {
  std::uint64_t number = 0;  ///< in the order of all devices
  std::uint64_t records = 0;
  std::vector<std::byte> hashes;           ///< a HashedPayload of each record, copied back
  std::vector<std::uint64_t> row_digests;  ///< of each row, of all that was copied back
};

/// Brings what several devices were given into one order, and into a ledger: up to the first
/// batch that did not arrive. Thread safe.
class DeviceDeliveries {
 public:
  struct Options {
    bool hashes = false;      ///< there are some
    bool compare = false;     ///< rows with what was read
    bool row_by_row = false;  ///< in the ledger: where a batch may hold rows of two passes
  };
  DeviceDeliveries(DeliveryLedger* ledger, Options options) : ledger_(ledger), options_(options) {}

  /// What was read, in order; before it is delivered.
  void Expect(std::span<const std::uint64_t> row_digests);
  /// `progress` is called with what is in the ledger by now, by one thread at a time.
  void Add(DeviceDelivery delivery, const std::function<void(const HashSums& so_far)>& progress);

  std::uint64_t batches() const;
  /// "" where every row arrived as it was read; with `complete`, also where none is missing.
  std::string Difference(bool complete) const;

 private:
  void Fold(const DeviceDelivery& delivery);
  void Compare(const DeviceDelivery& delivery);
  void AddToLedger(std::span<const std::byte> hashes, std::uint64_t records);

  DeliveryLedger* const ledger_;
  const Options options_;
  mutable std::mutex mutex_;                         ///< guards what follows, and the ledger
  std::map<std::uint64_t, DeviceDelivery> waiting_;  ///< behind one that is not there yet
  std::uint64_t next_ = 0;
  std::deque<std::uint64_t> expected_;
  std::uint64_t rows_ = 0;
  std::string difference_;
};

}  // namespace ringfeed::tools
