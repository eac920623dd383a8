#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/crc32c.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Memory that the CPU does not read: a device's. Thread safe.
class FarMemory {
 public:
  virtual ~FarMemory() = default;
  /// Copies from there into host memory. Blocks until that is done.
  virtual Status CopyToHost(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
};

/// Bytes of a batch that still stand where they were read: whoever takes the batch copies them to
/// their place in it, or has a device copy them to the same place in its own memory.
struct PendingCopy {
  std::byte* to = nullptr;  ///< in the batch
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  /// Where the memory begins that is kept for it: of several copies from there, what stands between
  /// them may be read along.
  const std::byte* slab = nullptr;
  FarMemory* far = nullptr;  ///< what `from` is in; null: in host memory
  /// Of the batch's PendingSums, the one that these bytes are a part of.
  std::uint32_t sum = kNoSum;

  static constexpr std::uint32_t kNoSum = ~std::uint32_t{0};
};

/// The CRC-32C of a record's payload that nobody has taken yet: whoever copies its bytes takes it.
struct PendingSum {
  const std::byte* payload = nullptr;
  std::size_t bytes = 0;
  std::uint32_t stored = 0;  ///< what it is to be
  /// What the pending copies are to add to it: of each ShiftCrc32c of its bytes' CRC-32C by those
  /// of the payload behind it, all together by exclusive or. The rest was taken.
  std::uint32_t of_copies = 0;

  /// With the CPU, all of it.
  bool Matches() const { return Crc32c({payload, bytes}) == stored; }
  /// How many bytes of the payload stand behind the copy's.
  std::size_t BytesBehind(const PendingCopy& copy) const {
    return static_cast<std::size_t>(payload + bytes - (copy.from + copy.bytes));
  }
};

/// Which fields of rows are left where they were read, by the bytes of a row's field on average;
/// 0: none are.
struct LeftFieldRules {
  std::size_t least_bytes = 0;            ///< of rows that stand anywhere, behind a shuffle
  std::size_t least_neighbour_bytes = 0;  ///< of rows that stand one after the other
  bool may_map = true;  ///< files may be mapped all the same; what is mapped is not left
  /// Checksums of payloads that are left are left, too (PendingSum): whoever takes a batch settles
  /// it before he hands it on (UnsettledBatch).
  bool leaves_sums = false;

  bool any() const { return least_bytes > 0; }
};

/// Does it with the CPU: the batch is then as if nothing had been left out. Fails where a device's
/// memory cannot be read any more.
inline Status MakeCopies(std::span<const PendingCopy> copies) {
  for (std::size_t i = 0; i < copies.size();) {
    const PendingCopy& first = copies[i++];
    if (first.far == nullptr) {
      std::memcpy(first.to, first.from, first.bytes);
      continue;
    }
    // Each call waits for the device: neighbours that stay neighbours go together.
    std::size_t bytes = first.bytes;
    for (; i < copies.size() && copies[i].far == first.far && copies[i].slab == first.slab &&
           copies[i].from == first.from + bytes && copies[i].to == first.to + bytes;
         ++i) {
      bytes += copies[i].bytes;
    }
    const Status status = first.far->CopyToHost(first.to, first.from, bytes);
    if (!status.ok()) return status;
  }
  return {};
}

/// Whether so many bytes that are wanted are best copied with all that stands between them.
inline bool IsWorthCopyingTogether(std::size_t wanted, std::size_t copied) {
  return 3 * wanted >= 2 * copied;
}

/// Those that begin in [data, data + bytes), of copies in the order of their places.
inline std::span<const PendingCopy> CopiesWithin(std::span<const PendingCopy> copies,
                                                 const std::byte* data, std::size_t bytes) {
  const auto before = [](const PendingCopy& copy, const std::byte* at) { return copy.to < at; };
  const auto first = std::lower_bound(copies.begin(), copies.end(), data, before);
  const auto last = std::lower_bound(first, copies.end(), data + bytes, before);
  return {first, last};
}

}  // namespace ringfeed
