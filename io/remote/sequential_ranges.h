#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "io/input_file.h"
#include "io/read_engine.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Reads of an object one after another, as a decompressor and a scan make them: from the second
/// that goes on where the first ended, the next 4 MiB are asked for ahead. One thread.
class SequentialRanges {
 public:
  /// `input` is the object's, and outlives this.
  explicit SequentialRanges(InputFile* input) : input_(input) {}
  ~SequentialRanges();
  SequentialRanges(const SequentialRanges&) = delete;
  SequentialRanges& operator=(const SequentialRanges&) = delete;

  /// As InputFile::ReadAt.
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer, std::size_t* bytes_read);

 private:
  /// A range that was asked for ahead.
  struct Part {
    ReadRequest request;
    std::vector<std::byte> bytes;
    bool is_done = false;
  };

  void AskAhead();
  /// Waits for the first part, which has the bytes at next_.
  void AwaitFirst();
  void LetGo();

  InputFile* const input_;
  std::uint64_t next_ = 0;   ///< where the read before ended
  std::uint64_t asked_ = 0;  ///< the end of what the parts have
  bool is_sequential_ = false;
  std::deque<std::unique_ptr<Part>> parts_;
  std::unique_ptr<ReadEngine> engine_;
};

}  // namespace ringfeed
