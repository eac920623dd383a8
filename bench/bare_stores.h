#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench/loop_result.h"

namespace ringfeed::bench {

/// What the bare loops are made of. Bad data ends the program.
[[noreturn]] void Die(const char* why);

/// A little-endian number, anywhere.
template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// Stores that pass the caches; Fence ends a run of them. `to` must be a multiple of the size.
inline void Stream64(std::byte* to, std::uint64_t value) {
#if defined(__x86_64__)
  _mm_stream_si64(reinterpret_cast<long long*>(to), static_cast<long long>(value));
#else
  std::memcpy(to, &value, sizeof(value));
#endif
}

inline void Stream32(std::byte* to, std::uint32_t value) {
#if defined(__x86_64__)
  _mm_stream_si32(reinterpret_cast<int*>(to), static_cast<int>(value));
#else
  std::memcpy(to, &value, sizeof(value));
#endif
}

/// A multiple of four bytes, to an address that is one too.
inline void StreamWords(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  if (reinterpret_cast<std::uintptr_t>(to) % 8 != 0 && bytes >= 4) {
    Stream32(to, Load<std::uint32_t>(from));
    at = 4;
  }
  for (; at + 8 <= bytes; at += 8) Stream64(to + at, Load<std::uint64_t>(from + at));
  if (at < bytes) Stream32(to + at, Load<std::uint32_t>(from + at));
}

inline void Fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/// Any number of bytes to anywhere.
void StreamLarge(std::byte* to, const std::byte* from, std::size_t bytes);

/// TFRecord's checksum of a payload, and of the eight bytes of a length.
std::uint32_t MaskedCrc(const std::byte* data, std::size_t bytes);
std::uint32_t LengthCrc(const std::byte* header);

/// Calls take(payload, bytes) for every whole TFRecord at the front of `bytes`, both checksums
/// taken; how many bytes these were.
template <typename Take>
std::size_t TakeTfRecords(std::span<const std::byte> bytes, Take take) {
  std::size_t at = 0;
  while (bytes.size() - at >= 16) {
    const std::byte* record = bytes.data() + at;
    const auto length = Load<std::uint64_t>(record);
    if (LengthCrc(record) != Load<std::uint32_t>(record + 8)) Die("bad length CRC");
    if (length > bytes.size() - at - 16) break;
    const std::byte* payload = record + 12;
    if (MaskedCrc(payload, length) != Load<std::uint32_t>(payload + length)) {
      Die("bad payload CRC");
    }
    take(payload, static_cast<std::size_t>(length));
    at += 16 + length;
  }
  return at;
}

/// Calls use(bytes) for one block after another of the files; it says how many bytes are done, the
/// others stand in front of the next block.
template <typename Source = BlockReader, typename Use>
void ForEachBlock(const std::vector<std::string>& files, Use use) {
  for (const std::string& path : files) {
    Source reader(path);
    std::span<const std::byte> bytes;
    for (std::size_t used = 0; reader.Next(used, &bytes);) used = use(bytes);
  }
}

/// Runs loop(&result, &digest) and takes its time.
template <typename Loop>
LoopResult Timed(Loop loop) {
  LoopResult result;
  BatchDigest digest;
  const LoopTimer timer;
  loop(&result, &digest);
  timer.Stop(&result);
  result.digest = digest.value();
  return result;
}

/// kRotatingBatches batches of fixed columns, one behind the other.
class FixedBatches {
 public:
  FixedBatches(const std::vector<std::size_t>& row_bytes, const LoopOptions& options);

  /// Where the current row's value of a column goes.
  std::byte* at(std::size_t column) const {
    return base_ + columns_[column].offset + row_ * columns_[column].row_bytes;
  }
  void NextRow() {
    if (++row_ == options_.batch_rows) Finish();
  }
  void Finish();
  std::uint64_t digest() const { return digest_.value(); }

 private:
  struct Column {
    std::size_t offset;
    std::size_t row_bytes;
  };

  std::size_t Layout(const std::vector<std::size_t>& row_bytes);

  const LoopOptions options_;
  std::vector<Column> columns_;
  std::size_t batch_bytes_;
  BatchMemory memory_;
  std::byte* base_ = nullptr;
  std::size_t row_ = 0;
  BatchDigest digest_;
};

/// kRotatingBatches batches of one column of bytes of any length.
class ByteBatches {
 public:
  explicit ByteBatches(const LoopOptions& options);

  /// Where the current batch stands: bytes and offsets are digested at its end.
  void Add(std::span<const std::byte> bytes);
  /// True where the row that was added last filled the batch: then Finish is due.
  bool full() const { return row_ == options_.batch_rows; }
  std::size_t rows() const { return row_; }
  void Finish(BatchDigest* digest);

 private:
  static constexpr std::size_t kRoom = 256 * 1024;  // a row's share of a batch

  const LoopOptions options_;
  const std::size_t batch_bytes_;
  BatchMemory memory_;
  std::vector<std::int64_t> offsets_;
  std::size_t row_ = 0;
  std::size_t batch_ = 0;
};

}  // namespace ringfeed::bench
