#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ringfeed/record.h"

struct evp_md_ctx_st;

namespace ringfeed::tools {

using Sha256Value = std::array<std::byte, 32>;

/// SHA-256 of the appended bytes. One thread at a time.
class Sha256 {
 public:
  Sha256();
  void Append(std::span<const std::byte> bytes);
  /// The hash of everything since construction or the last Finish, and a new beginning.
  Sha256Value Finish();
  /// The hash of `bytes` alone; nothing else may be pending.
  Sha256Value Of(std::span<const std::byte> bytes);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// Two lower-case digits a byte, first byte first.
std::string HexText(std::span<const std::byte> bytes);

/// The sum modulo 2^256 of hashes read as little-endian numbers: equal for equal multisets of
/// records whatever their order, and sums of parts add up to the sum of the whole.
class MultisetSum {
 public:
  void Add(const Sha256Value& hash);
  void Add(const MultisetSum& other);
  /// 64 hexadecimal digits, the highest first.
  std::string Hex() const;
  bool operator==(const MultisetSum&) const = default;

 private:
  std::array<std::uint64_t, 4> words_{};  // the lowest first
};

/// The digest of a sequence of records.
class RecordDigest {
 public:
  void Add(std::span<const std::byte> payload);
  std::uint64_t records() const { return records_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  const MultisetSum& multiset() const { return multiset_; }
  /// SHA-256 over, for each record in order, its length as u64 little endian and its payload. Call
  /// once, at the end.
  Sha256Value FinishSequence() { return sequence_.Finish(); }

 private:
  std::uint64_t records_ = 0;
  std::uint64_t payload_bytes_ = 0;
  Sha256 sequence_;
  Sha256 single_;
  MultisetSum multiset_;
};

}  // namespace ringfeed::tools
