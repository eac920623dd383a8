#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/stream_copy.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Asks for the cache lines of a row that will be parsed soon: after a shuffle it may be anywhere.
/// For a long row it asks for the start only; the processor fetches the rest by itself. Inlined by
/// force: g++ takes a function that only prefetches for one without effect, and drops the call.
[[gnu::always_inline]] inline void FetchRow(const RecordSpan& row) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMost = 1024;
  const std::size_t bytes = row.size < kMost ? row.size : kMost;
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row.data + at);
  if (bytes != 0) __builtin_prefetch(row.data + bytes - 1);
}

/// The same for a row that comes after another one: if it is close to the other's end, the
/// processor will have fetched it.
[[gnu::always_inline]] inline void FetchRowBehind(const RecordSpan& before, const RecordSpan& row) {
  constexpr std::uintptr_t kNear = 256;
  const auto end = reinterpret_cast<std::uintptr_t>(before.data) + before.size;
  if (reinterpret_cast<std::uintptr_t>(row.data) - end < kNear) return;
  FetchRow(row);
}

/// Copies N bytes as two pieces that may overlap: no loop, and nothing beyond is touched.
template <std::size_t kPiece>
inline void CopyEnds(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, kPiece);
  std::memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
}

/// Calls `use` with a function (to, from) that copies so many bytes, made for that size: for a loop
/// over many of them.
template <typename Use>
void WithCopyOf(std::size_t bytes, Use use) {
  using Bytes = std::byte;
  if (bytes == 1) return use([](Bytes* to, const Bytes* from) { *to = *from; });
  if (bytes == 2) return use([](Bytes* to, const Bytes* from) { std::memcpy(to, from, 2); });
  if (bytes == 4) return use([](Bytes* to, const Bytes* from) { std::memcpy(to, from, 4); });
  if (bytes == 8) return use([](Bytes* to, const Bytes* from) { std::memcpy(to, from, 8); });
  if (bytes == 64) return use([](Bytes* to, const Bytes* from) { std::memcpy(to, from, 64); });
  if (bytes >= 64 && bytes <= 128) {
    return use([bytes](Bytes* to, const Bytes* from) { CopyEnds<64>(to, from, bytes); });
  }
  if (bytes >= 32 && bytes <= 64) {
    return use([bytes](Bytes* to, const Bytes* from) { CopyEnds<32>(to, from, bytes); });
  }
  if (bytes >= 16 && bytes <= 32) {
    return use([bytes](Bytes* to, const Bytes* from) { CopyEnds<16>(to, from, bytes); });
  }
  use([bytes](Bytes* to, const Bytes* from) { std::memcpy(to, from, bytes); });
}

/// Gathers the bytes of a column, row after row, in a buffer that stays in L1, and sends them on in
/// whole cache lines past the caches: a short row alone would fill a part of a line, which such a
/// store cannot do well. The first and the last line are written byte by byte, since other threads
/// may be writing next to them.
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

  /// Appends bytes from any place; long ones bypass the stage.
  void Append(const std::byte* from, std::size_t bytes) {
    if (bytes >= capacity_ / 4) {
      std::byte* to = line_ + fill_;
      Finish();
      StreamCopy(to, from, bytes);
      Start(to + bytes);
      return;
    }
    if (bytes > room()) Flush();
    if (bytes == 8) {
      std::memcpy(next(), from, 8);  // no calls for numbers: their loads overlap
    } else if (bytes == 4) {
      std::memcpy(next(), from, 4);
    } else if (bytes != 0) {
      std::memcpy(next(), from, bytes);
    }
    Advance(bytes);
  }

 private:
  std::byte* stage_;
  std::size_t capacity_;
  std::byte* line_ = nullptr;  // the place of stage_[0], aligned to kLine
  std::size_t first_ = 0;      // bytes of stage_ before this are not ours
  std::size_t fill_ = 0;
};

/// A stager for each column of a batch.
class StagedColumns {
 public:
  StagedColumns() = default;
  StagedColumns(std::size_t columns, std::size_t stage_bytes) {
    for (std::size_t i = 0; i < columns; ++i) Add(stage_bytes);
  }
  /// One more column, with room for so many bytes. A short column touches little of them.
  void Add(std::size_t stage_bytes) {
    const std::size_t lines = (stage_bytes - 1) / ColumnStager::kLine + 2;
    stages_.push_back(std::make_unique_for_overwrite<Line[]>(lines));
    stagers_.emplace_back(stages_.back()[0].bytes, stage_bytes);
  }

  ColumnStager& operator[](std::size_t column) { return stagers_[column]; }

  /// Starts every column at its target's place, except those without data; `fields` have their
  /// unit_bytes.
  template <typename Fields>
  void Start(const Fields& fields, std::span<const ColumnTarget> targets) {
    for (std::size_t f = 0; f < stagers_.size(); ++f) {
      if (targets[f].data == nullptr) {
        stagers_[f].Start(nullptr);  // drops what a call that threw left there
        continue;
      }
      const bool ragged = targets[f].offsets != nullptr;
      const auto unit = static_cast<std::size_t>(ragged ? targets[f].offsets[0] : 0);
      stagers_[f].Start(targets[f].data + unit * fields[f].unit_bytes);
    }
  }
  /// Appends rows whose fields are located as the bytes that belong to their columns. `first_row`:
  /// of the call that Start belongs to.
  void AppendLocated(std::span<const ColumnTarget> targets, const FieldLocation* locations,
                     std::size_t first_row, std::size_t rows) {
    for (std::size_t f = 0; f < stagers_.size(); ++f) {
      const FieldLocation* at = locations + f;
      std::int64_t* offsets = targets[f].offsets;
      if (offsets != nullptr) offsets += first_row;
      for (std::size_t row = 0; row < rows; ++row, at += stagers_.size()) {
        if (offsets != nullptr) offsets[row + 1] = offsets[row] + at->units;
        if (targets[f].data != nullptr) stagers_[f].Append(at->data, at->bytes);
      }
      stagers_[f].Flush();
    }
  }
  /// Sends everything, and orders it before all that follows.
  void Finish() {
    for (ColumnStager& stager : stagers_) stager.Finish();
    StreamFence();
  }

 private:
  struct alignas(ColumnStager::kLine) Line {
    std::byte bytes[ColumnStager::kLine];
  };

  std::vector<std::unique_ptr<Line[]>> stages_;
  std::vector<ColumnStager> stagers_;
};

}  // namespace ringfeed
