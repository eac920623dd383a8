#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The bytes of a Source as if they were in memory: a piece of them is read when it is first
/// needed, once, and stays. Address space is taken for all, memory for what was read. Thread safe.
class FetchedBytes {
 public:
  /// A round trip to a store takes about as long as these bytes.
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

  /// Reads nothing. kInvalidArgument if the source has more than kMostBytes; kResourceExhausted if
  /// there is no address space for it.
  static Status Open(std::shared_ptr<Source> source, std::shared_ptr<const FetchedBytes>* fetched);
  FetchedBytes(std::shared_ptr<Source> source, std::span<std::byte> memory);
  ~FetchedBytes();
  FetchedBytes(const FetchedBytes&) = delete;
  FetchedBytes& operator=(const FetchedBytes&) = delete;

  /// All of them; those that were never needed are zeros.
  std::span<const std::byte> bytes() const { return memory_; }
  /// Makes sure that `wanted`, a part of bytes(), was read. Blocks for the reads; different pieces
  /// are read at the same time. After a failure the next call reads again. kDamaged if the source
  /// ends before its size.
  Status Need(std::span<const std::byte> wanted) const;

 private:
  Status NeedPiece(std::size_t piece) const;

  const std::shared_ptr<Source> source_;
  const std::span<std::byte> memory_;
  /// By piece, whether it was read. A release store after the read; its partner is the acquire load
  /// by which a thread skips the read.
  mutable std::vector<std::atomic<bool>> read_;
  /// A piece is read under the one of its number, so that no two threads read it.
  mutable std::array<std::mutex, 64> reading_;
};

}  // namespace ringfeed
