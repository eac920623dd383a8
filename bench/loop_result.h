#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ringfeed::bench {

/// How a loop over files is run.
struct LoopOptions {
  std::size_t batch_rows = 64;
  /// Hash every batch. For a run beside the timed ones: it costs more than what is measured.
  bool digest = false;
};

/// What one pass of a loop over files took and moved.
struct LoopResult {
  double cpu_s = 0;  ///< of the calling thread
  double wall_s = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;   ///< of payloads
  std::uint64_t digest = 0;  ///< of all batches, where asked for
};

/// Hashes batches in order: add each batch's columns in the order of the fields (the values, and
/// behind those of a ragged one its offsets, rows + 1 of them as int64).
class BatchDigest {
 public:
  void Add(std::span<const std::byte> column);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Seconds of a clock that only goes forward.
double NowSeconds();

/// Takes the calling thread's time until it is asked.
class LoopTimer {
 public:
  LoopTimer();
  void Stop(LoopResult* result) const;

 private:
  double cpu_begin_;
  double wall_begin_;
};

/// Memory that batches are written to: aligned to 2 MiB, in huge pages if the system gives them,
/// faulted in.
class BatchMemory {
 public:
  explicit BatchMemory(std::size_t bytes);
  ~BatchMemory();
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* mapping_;
  std::size_t mapped_;
  std::byte* data_;
  std::size_t bytes_;
};

/// How many batches rotate, so that none is still in the cache when it is written again.
inline constexpr std::size_t kRotatingBatches = 8;
/// Bytes of one read.
inline constexpr std::size_t kReadBytes = std::size_t{512} * 1024;

/// Reads one file from its start in blocks of kReadBytes with pread; what the caller has not used
/// of a block moves in front of the next.
class BlockReader {
 public:
  explicit BlockReader(const std::string& path);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  /// The unused bytes and one more block; false at the end. `used` of the bytes before are done.
  bool Next(std::size_t used, std::span<const std::byte>* bytes);
  std::uint64_t offset() const { return offset_; }  ///< of the first of the bytes
  std::uint64_t file_bytes() const { return file_bytes_; }
  bool at_end() const { return read_ == file_bytes_; }

 private:
  int descriptor_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t offset_ = 0;
  std::size_t have_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace ringfeed::bench
