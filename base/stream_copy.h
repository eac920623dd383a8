#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

/// Copies like memcpy with stores that pass the caches where that pays (whole lines of a large
/// piece), for destinations that this processor will not read soon. The source is fetched ahead.
/// Such stores are not ordered with others: call StreamFence before telling anybody.
void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes);

/// Copies `lines` * 64 bytes past the caches; `to` is aligned to 64, `from` to nothing. For short
/// pieces that stand in the cache: nothing is fetched ahead.
void StreamLines(std::byte* to, const std::byte* from, std::size_t lines);

/// Names bytes that this thread will read next: StreamCopy and StreamLines fetch them into the
/// second level cache, a line for each line they store, since stores that pass the caches leave the
/// way for reads idle. Replaces what was named before; null for nothing. Never faults, wherever it
/// points.
void SetStreamCompanion(const std::byte* begin, std::size_t bytes);

/// Takes the CRC-32C of a record beside the copies of its fields: as long as it lives, StreamCopy
/// on its thread adds up what it copies out of the record, and each byte is loaded once for both.
/// One at a time on a thread.
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

  /// The record's CRC-32C. What no copy took is read now.
  std::uint32_t Finish();
};

/// Orders all stores before it, streamed ones too, before those after it.
void StreamFence();

}  // namespace ringfeed
