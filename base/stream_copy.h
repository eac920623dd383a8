#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

/// Copies like memcpy, with stores that bypass the caches if that pays (whole lines of a large
/// piece). For destinations that this processor will not read soon. Prefetches the source. Such
/// stores are not ordered with others: call StreamFence before another thread learns of them.
void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes);

/// Copies `lines` * 64 bytes past the caches; `to` is aligned to 64, `from` need not be. For short
/// pieces that are in the cache: prefetches nothing.
void StreamLines(std::byte* to, const std::byte* from, std::size_t lines);

/// Names bytes that this thread will read next. StreamCopy and StreamLines fetch them into the
/// second level cache, a line for each line they store, since stores that bypass the caches leave
/// the read path idle. Replaces the bytes named before; null names none. Any address is allowed: it
/// never faults.
void SetStreamCompanion(const std::byte* begin, std::size_t bytes);

/// Computes the CRC-32C of a record along with the copies of its fields: as long as it lives,
/// StreamCopy on its thread sums what it copies out of the record, so each byte is loaded once for
/// both. One at a time on a thread.
class SumBeside {
 public:
  /// Whether this processor does both at once.
  static bool Works();
  /// Whether it does, and the record is long enough for it to pay.
  static bool Pays(std::size_t record_bytes);

  explicit SumBeside(std::span<const std::byte> record);
  ~SumBeside();
  SumBeside(const SumBeside&) = delete;
  SumBeside& operator=(const SumBeside&) = delete;

  /// The record's CRC-32C. Bytes that no copy summed are read now.
  std::uint32_t Finish();
};

/// Orders all stores before it, streamed ones too, before those after it.
void StreamFence();

}  // namespace ringfeed
