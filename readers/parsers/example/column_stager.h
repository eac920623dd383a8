#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/stream_copy.h"

namespace ringfeed {

/// Gathers the bytes of a column, row behind row, in a buffer that stays in L1, and sends them on
/// in whole cache lines past the caches: a short row alone would fill a part of a line, which such
/// a store cannot do well. The first and the last line are written byte by byte, since others may
/// be writing what lies beside.
class ColumnStager {
 public:
  static constexpr std::size_t kLine = 64;

  /// `stage` is aligned to kLine, with room for `capacity` bytes and kLine before that.
  ColumnStager(std::byte* stage, std::size_t capacity) : stage_(stage), capacity_(capacity) {}

  /// Starts a column at `to`; nothing may be pending.
  void Start(std::byte* to) {
    first_ = reinterpret_cast<std::uintptr_t>(to) % kLine;
    line_ = to - first_;
    fill_ = first_;
  }
  /// How many bytes may be put at next() before the next Flush.
  std::size_t room() const { return capacity_ + kLine - fill_; }
  std::byte* next() const { return stage_ + fill_; }
  void Advance(std::size_t bytes) { fill_ += bytes; }

  /// Sends every full line; at most 63 bytes stay.
  void Flush() {
    std::size_t done = 0;
    if (first_ != 0 && fill_ >= kLine) {
      std::memcpy(line_ + first_, stage_ + first_, kLine - first_);
      first_ = 0;
      done = kLine;
    }
    const std::size_t lines = (fill_ - done) / kLine;
    StreamLines(line_ + done, stage_ + done, lines);
    done += lines * kLine;
    line_ += done;
    fill_ -= done;
    if (done != 0 && fill_ != 0) std::memcpy(stage_, stage_ + done, kLine);
  }

  /// Sends everything.
  void Finish() {
    Flush();
    if (fill_ > first_) std::memcpy(line_ + first_, stage_ + first_, fill_ - first_);
    line_ += fill_;
    fill_ = first_ = 0;
  }

  /// Appends bytes from anywhere; long ones pass by the stage.
  void Append(const std::byte* from, std::size_t bytes) {
    if (bytes >= capacity_ / 4) {
      std::byte* to = line_ + fill_;
      Finish();
      StreamCopy(to, from, bytes);
      Start(to + bytes);
      return;
    }
    if (bytes > room()) Flush();
    if (bytes != 0) std::memcpy(next(), from, bytes);
    Advance(bytes);
  }

 private:
  std::byte* stage_;
  std::size_t capacity_;
  std::byte* line_ = nullptr;  // where stage_[0] belongs, aligned to kLine
  std::size_t first_ = 0;      // bytes of stage_ before this are not ours
  std::size_t fill_ = 0;
};

}  // namespace ringfeed
