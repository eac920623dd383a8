#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/instance.h"
#include "ringfeed/record.h"
#include "tools/digests.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/hashing_parser.h"

namespace ringfeed::tools {

/// Sums of the words of payload hashes, each modulo 2^64: equal for equal multisets of records.
struct HashSums {
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
  std::array<std::uint64_t, 4> words{};

  void Add(const HashedPayload& payload);
  void Add(const HashSums& other);
  bool operator==(const HashSums&) const = default;
};

/// Told of a delivery, with the sums of all so far; false to end there.
using FeedProgress = std::function<bool(const HashSums& so_far)>;

/// The tensor's own rows: of its top level, if it has levels.
std::uint64_t RowsOfTensor(const Tensor& tensor);

/// Counts what a chain delivered, from the deliveries themselves. One thread at a time.
class DeliveryLedger {
 public:
  /// With `keep_deliveries`, the sums of each delivery are kept for later comparison.
  DeliveryLedger(PayloadHash hash, bool keep_deliveries);

  /// Adds a batch; its last field is a HashedPayload if there is a hash. A batch without rows does
  /// not count.
  void AddBatch(const Instance& batch);
  /// The same by its number of rows and, if there is a hash, their HashedPayloads.
  void AddRows(std::uint64_t rows, std::span<const std::byte> hashes);
  void AddBlock(std::span<const RecordSpan> records);

  std::uint64_t deliveries() const { return deliveries_; }
  /// Without a hash, payload_bytes are known for blocks only.
  const HashSums& totals() const { return totals_; }
  const std::vector<HashSums>& kept() const { return kept_; }
  /// With kSha256: SHA-256 over the SHA-256 of each payload, in the order of delivery. Call once.
  std::string FinishOrderDigest() { return HexText(order_.Finish()); }
  std::string Multiset() const { return multiset_.Hex(); }

 private:
  void Account(const HashedPayload& payload, HashSums* delivery);
  void Close(const HashSums& delivery);

  const PayloadHash hash_;
  const bool keep_deliveries_;
  PayloadHasher hasher_;
  std::uint64_t deliveries_ = 0;
  HashSums totals_;
  std::vector<HashSums> kept_;
  Sha256 order_;
  MultisetSum multiset_;
};

/// Whether each pass delivered every record of the files exactly once.
struct DeliveryCheck {
  bool done = false;  ///< false if the run was too short to say
  bool exact = false;
  std::uint64_t passes = 0;  ///< compared
  HashSums files;            ///< of one pass, as the files have them
  std::string what;          ///< the outcome in words
};

/// Reads the files once more by a plain loop (RecordWalk) and compares the records' number, bytes
/// and hash sums with those of every pass that `ledger` kept; `complete`: the run came to the end
/// of the data. Throws Error if a file cannot be read so.
DeliveryCheck CheckDeliveries(const FeedPlan& plan, const DeliveryLedger& ledger, bool complete);

}  // namespace ringfeed::tools
