#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/crc32c.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Memory that the CPU cannot read: a device's. Thread safe.
class FarMemory {
 public:
  virtual ~FarMemory() = default;
  /// Copies from it into host memory. Blocks until the copy is done.
  virtual Status CopyToHost(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
};

/// Bytes of a batch that are still in the memory they were read into. The receiver of the batch
/// copies them to their place in it, or has a device copy them to the same place in its own memory.
struct PendingCopy {
  std::byte* to = nullptr;  ///< in the batch
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  /// The start of the memory that is kept for it. Of several copies from one slab, the bytes
  /// between them may be read along.
  const std::byte* slab = nullptr;
  FarMemory* far = nullptr;  ///< what `from` is in; null: host memory
  /// Which of the batch's PendingSums these bytes are a part of.
  std::uint32_t sum = kNoSum;

  static constexpr std::uint32_t kNoSum = ~std::uint32_t{0};
};

/// The CRC-32C of a record's payload that is not computed yet: the one that copies its bytes
/// computes it.
struct PendingSum {
  const std::byte* payload = nullptr;
  std::size_t bytes = 0;
  std::uint32_t stored = 0;  ///< the expected CRC
  /// What the pending copies have to add to it: for each copy, ShiftCrc32c of its bytes' CRC-32C by
  /// the number of payload bytes after it, combined by exclusive or. All other bytes are in
  /// already.
  std::uint32_t of_copies = 0;

  /// Computes it with the CPU, over the whole payload.
  bool Matches() const { return Crc32c({payload, bytes}) == stored; }
  /// How many bytes of the payload come after the copy's.
  std::size_t BytesBehind(const PendingCopy& copy) const {
    return static_cast<std::size_t>(payload + bytes - (copy.from + copy.bytes));
  }
};

/// Which fields of rows stay in the memory they were read into, by the average bytes of the field
/// in a row; 0: none.
struct LeftFieldRules {
  std::size_t least_bytes = 0;            ///< of rows at any place, after a shuffle
  std::size_t least_neighbour_bytes = 0;  ///< of rows next to each other
  bool may_map = true;  ///< files may be mapped all the same; mapped bytes are not left
  /// Rows that the CPU has just copied, as from the page cache, are not left: to copy them once
  /// more, from its cache, costs little.
  bool only_cold = false;
  /// Checksums of payloads that are left are left, too (PendingSum): the receiver of a batch
  /// settles it before it hands it on (UnsettledBatch).
  bool leaves_sums = false;

  bool any() const { return least_bytes > 0; }
};

/// Makes the copies with the CPU: the batch is then complete. Fails if a device's memory cannot be
/// read any more.
inline Status MakeCopies(std::span<const PendingCopy> copies) {
  for (std::size_t i = 0; i < copies.size();) {
    const PendingCopy& first = copies[i++];
    if (first.far == nullptr) {
      std::memcpy(first.to, first.from, first.bytes);
      continue;
    }
    // Each call waits for the device, so copies whose sources and targets are both adjacent go
    // together.
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

/// Whether it is best to copy so many wanted bytes together with everything between them.
inline bool IsWorthCopyingTogether(std::size_t wanted, std::size_t copied) {
  return 3 * wanted >= 2 * copied;
}

/// The copies that begin in [data, data + bytes); `copies` is in the order of their places.
inline std::span<const PendingCopy> CopiesWithin(std::span<const PendingCopy> copies,
                                                 const std::byte* data, std::size_t bytes) {
  const auto before = [](const PendingCopy& copy, const std::byte* at) { return copy.to < at; };
  const auto first = std::lower_bound(copies.begin(), copies.end(), data, before);
  const auto last = std::lower_bound(first, copies.end(), data + bytes, before);
  return {first, last};
}

}  // namespace ringfeed
