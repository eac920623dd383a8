#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/instance.h"
#include "ringfeed/record.h"
#include "tools/hashing_parser.h"
#include "tools/multiset_sum.h"
#include "tools/sha256.h"

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

/// Keeps account of what a chain delivered, from the deliveries themselves. One thread at a time.
class DeliveryLedger {
 public:
  /// With `keep_deliveries`, the sums of each delivery are kept for later comparison.
  DeliveryLedger(PayloadHash hash, bool keep_deliveries);

  /// A batch; its last field is a HashedPayload where there is a hash. One without rows is none.
  void AddBatch(const Instance& batch);
  void AddBlock(std::span<const RecordSpan> records);

  std::uint64_t deliveries() const { return deliveries_; }
  /// Without a hash, payload_bytes are known for blocks only.
  const HashSums& totals() const { return totals_; }
  const std::vector<HashSums>& kept() const { return kept_; }
  /// With kSha256: SHA-256 over the SHA-256 of each payload, in the order of delivery. Once.
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

}  // namespace ringfeed::tools
