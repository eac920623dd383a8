#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// The parts of a data set as one stream, for a Dataset that reads files by itself. Parts that are
/// compressed by gzip, zlib or zstd are decompressed. A part is opened when its turn comes, so what
/// precedes a missing or damaged one is read before the failure. Reads block by block. One thread
/// at a time.
///
/// The end of the last part is a result. All else throws Error, whose status has the part and the
/// offset in it (decompressed, if it is compressed): kNotFound for a missing part, kDamaged,
/// kTruncated, kIoError, kResourceExhausted. It throws the same again until Rewind; in
/// Dataset::Next, simply let it through.
class PersistentInStream {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;

  explicit PersistentInStream(std::vector<std::string> parts,
                              std::size_t max_line_bytes = kMaxLineBytes);
  ~PersistentInStream();
  PersistentInStream(PersistentInStream&&) noexcept;
  PersistentInStream& operator=(PersistentInStream&&) noexcept;

  /// Replaces *line by the next line, without its LF or CRLF; false at the end. A part's last line
  /// needs no end, and is never joined with the first of the next part.
  bool ReadLine(std::string* line);
  /// Fills `bytes` bytes at `data`, all from one part; false if all parts are at their end. A
  /// part that ends with fewer, but some, is kTruncated.
  bool ReadFully(void* data, std::size_t bytes);
  /// Starts again with the first part.
  void Rewind();

  /// The part that the last call read from, and the offset in it at which the next call begins.
  /// Empty and 0 before the first call.
  const std::string& part() const;
  std::uint64_t offset() const { return offset_ - (end_ - begin_); }

 private:
  class Part;

  bool Fill();
  bool OpenNext();
  /// Whether there are bytes in the buffer, of this part or a later one.
  bool HasBytes();
  void ThrowFailure() const;
  [[noreturn]] void Fail(const Status& status, std::uint64_t offset);

  std::vector<std::string> parts_;
  std::size_t max_line_bytes_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;     ///< start of the bytes in the buffer not taken yet
  std::size_t end_ = 0;       ///< their end
  std::uint64_t offset_ = 0;  ///< of end_ in the part
  std::size_t next_part_ = 0;
  std::unique_ptr<Part> part_;
  Status failure_;
};

}  // namespace ringfeed
