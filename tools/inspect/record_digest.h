#pragma once

#include <cstdint>
#include <span>

#include "ringfeed/record.h"
#include "tools/multiset_sum.h"
#include "tools/sha256.h"

namespace ringfeed::tools {

/// What `digest` says about a sequence of records.
class RecordDigest {
 public:
  void Add(std::span<const std::byte> payload);
  std::uint64_t records() const { return records_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  const MultisetSum& multiset() const { return multiset_; }
  /// SHA-256 over, for each record in order, its length as u64 little endian and its payload. Once,
  /// at the end.
  Sha256Value FinishSequence() { return sequence_.Finish(); }

 private:
  std::uint64_t records_ = 0;
  std::uint64_t payload_bytes_ = 0;
  Sha256 sequence_;
  Sha256 single_;
  MultisetSum multiset_;
};

}  // namespace ringfeed::tools
