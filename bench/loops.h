#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench/harness.h"

namespace ringfeed::bench {

// What the plain loops are made of. Bad data ends the program.

[[noreturn]] void Die(const char* why);

/// How a loop over files is run.
struct LoopOptions {
  std::size_t batch_rows = 64;
  /// Hash every batch. For a run beside the timed ones: it costs more than what is measured.
  bool digest = false;
  std::uint32_t pass = 0;  ///< of an order that differs from pass to pass
};

/// A loop over files that it was given before, once each time it is called.
using BareLoop = std::function<LoopResult(const LoopOptions& options)>;
/// Makes one over these files. What it opens or maps for all of its runs is no part of their time.
using BareLoopMaker = std::function<BareLoop(const std::vector<std::string>& files)>;

/// Hashes batches in order: add each batch's columns in the order of the fields (the values, and
/// after those of a ragged one its offsets, rows + 1 of them as int64).
class BatchDigest {
 public:
  void Add(std::span<const std::byte> column);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Takes time from its construction on: by the clock, and the CPU time of the calling thread or of
/// the whole process.
class Timer {
 public:
  enum class Of { kThread, kProcess };
  explicit Timer(Of of = Of::kThread);
  void Stop(LoopResult* result) const;

 private:
  Of of_;
  double cpu_begin_;
  std::chrono::steady_clock::time_point wall_begin_;
};

/// Runs loop(&result, &digest) and takes its time.
template <typename Loop>
LoopResult Timed(Loop loop, Timer::Of of = Timer::Of::kThread) {
  LoopResult result;
  BatchDigest digest;
  const Timer timer(of);
  loop(&result, &digest);
  timer.Stop(&result);
  result.digest = digest.value();
  return result;
}

// --- files -------------------------------------------------------------------------------------

/// Bytes of one read.
inline constexpr std::size_t kReadBytes = std::size_t{512} * 1024;

/// A descriptor of a file that is read.
class OpenedFile {
 public:
  explicit OpenedFile(const std::string& path);
  ~OpenedFile();
  OpenedFile(OpenedFile&& other) noexcept;
  OpenedFile& operator=(OpenedFile&&) = delete;
  /// Reads up to `bytes` at `offset`; how many there were.
  std::size_t Read(std::byte* to, std::size_t bytes, std::uint64_t offset) const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Reads one file from its start in blocks of kReadBytes; what the caller has not used of a block
/// moves in front of the next.
template <typename File = OpenedFile>
class BlockReader {
 public:
  explicit BlockReader(const std::string& path) : file_(path), buffer_(2 * kReadBytes) {}

  /// The unused bytes and one more block; false at the end. `used` of the bytes before are done.
  bool Next(std::size_t used, std::span<const std::byte>* bytes) {
    std::memmove(buffer_.data(), buffer_.data() + used, have_ - used);
    have_ -= used;
    offset_ += used;
    if (buffer_.size() < have_ + kReadBytes) buffer_.resize(have_ + kReadBytes);
    const std::size_t got = file_.Read(buffer_.data() + have_, kReadBytes, offset_ + have_);
    have_ += got;
    *bytes = {buffer_.data(), have_};
    return got > 0;
  }
  std::uint64_t offset() const { return offset_; }  ///< of the first of the bytes

 private:
  const File file_;
  std::uint64_t offset_ = 0;
  std::size_t have_ = 0;
  std::vector<std::byte> buffer_;
};

/// Files that stay mapped, every page of them touched. Throws Error if one cannot be mapped.
class MappedFiles {
 public:
  explicit MappedFiles(const std::vector<std::string>& paths);
  ~MappedFiles();
  MappedFiles(const MappedFiles&) = delete;
  MappedFiles& operator=(const MappedFiles&) = delete;

  /// The bytes of each, in the order of `paths`.
  const std::vector<std::span<const std::byte>>& files() const { return files_; }

 private:
  std::vector<std::span<const std::byte>> files_;
};

/// Calls use(bytes) for one block after another of the files; it says how many bytes are done, the
/// others stand in front of the next block.
template <typename File = OpenedFile, typename Use>
void ForEachBlock(const std::vector<std::string>& files, Use use) {
  for (const std::string& path : files) {
    BlockReader<File> reader(path);
    std::span<const std::byte> bytes;
    for (std::size_t used = 0; reader.Next(used, &bytes);) used = use(bytes);
  }
}

// --- bytes -------------------------------------------------------------------------------------

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

/// Any number of bytes to anywhere.
void StreamLarge(std::byte* to, const std::byte* from, std::size_t bytes);

inline void Fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

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

/// The same of OFRecords: a length in front, no checksums.
template <typename Take>
std::size_t TakeOfRecords(std::span<const std::byte> bytes, Take take) {
  std::size_t at = 0;
  while (bytes.size() - at >= 8) {
    const auto length = Load<std::uint64_t>(bytes.data() + at);
    if (length > bytes.size() - at - 8) break;
    take(bytes.data() + at + 8, static_cast<std::size_t>(length));
    at += 8 + length;
  }
  return at;
}

// --- batches -----------------------------------------------------------------------------------

/// Batches that rotate, eight of them, so that none is still in the cache when it is written again.
/// In huge pages if the system gives them, faulted in.
class BatchMemory {
 public:
  explicit BatchMemory(std::size_t batch_bytes);
  ~BatchMemory();
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  std::byte* data() const { return data_ + batch_ * batch_bytes_; }  ///< of the current one
  std::size_t batch_bytes() const { return batch_bytes_; }
  void Rotate() { batch_ = (batch_ + 1) % kBatches; }

 private:
  static constexpr std::size_t kBatches = 8;

  const std::size_t batch_bytes_;
  const std::size_t mapped_bytes_;
  void* mapping_;
  std::byte* data_;
  std::size_t batch_ = 0;
};

/// Batches of fixed columns, one after the other.
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
  /// Ends the batch. After the last row, `result` gets the digest of all.
  void Finish(LoopResult* result = nullptr);

 private:
  struct Column {
    std::size_t offset;
    std::size_t row_bytes;
  };

  std::size_t Layout(const std::vector<std::size_t>& row_bytes);

  const LoopOptions options_;
  std::vector<Column> columns_;
  BatchMemory memory_;
  std::byte* base_;
  std::size_t row_ = 0;
  BatchDigest digest_;
};

/// Runs fill(&result, &batches), which fills the columns of rows, and takes its time.
template <typename Fill>
LoopResult FillColumns(const std::vector<std::size_t>& row_bytes, const LoopOptions& options,
                       Fill fill) {
  FixedBatches batches(row_bytes, options);
  LoopResult result;
  const Timer timer;
  fill(&result, &batches);
  batches.Finish(&result);
  timer.Stop(&result);
  return result;
}

/// Batches of one column of bytes of any length.
class ByteBatches {
 public:
  explicit ByteBatches(const LoopOptions& options);

  void Add(std::span<const std::byte> bytes);
  /// True if the row that was added last filled the batch: then Finish is due.
  bool full() const { return row_ == options_.batch_rows; }
  std::size_t rows() const { return row_; }
  void Finish(BatchDigest* digest);

 private:
  static constexpr std::size_t kRoom = 256 * 1024;  // a row's share of a batch

  const LoopOptions options_;
  BatchMemory memory_;
  std::vector<std::int64_t> offsets_;
  std::size_t row_ = 0;
};

}  // namespace ringfeed::bench
