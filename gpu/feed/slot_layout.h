#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/arena.h"

namespace ringfeed {

/// A stretch of host memory and its target.
struct PlannedPiece {
  const std::byte* from = nullptr;  ///< pinned memory of an arena, or anything if `staged`
  std::size_t to = 0;               ///< offset in the slot
  std::size_t bytes = 0;
  bool staged = false;  ///< the CPU copies it into staging memory first, at `staging_at`
  bool field = true;    ///< a whole field or its offsets: unused room follows it
  std::size_t staging_at = 0;
};

/// Which host memory is copied to which place of a slot, and how much room that takes in the slot
/// and in staging memory.
class SlotLayout {
 public:
  static constexpr std::size_t kAlignment = 256;
  static std::size_t AlignUp(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  void Clear() {
    pieces_.clear();
    slot_bytes_ = staging_bytes_ = copied_bytes_ = 0;
  }
  std::span<const PlannedPiece> pieces() const { return pieces_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::size_t staging_bytes() const { return staging_bytes_; }
  std::size_t copied_bytes() const { return copied_bytes_; }

  /// The place of so many bytes after all others, a multiple of kAlignment.
  std::size_t AddRoom(std::size_t bytes) { return Add(bytes, &slot_bytes_); }
  std::size_t AddStagingRoom(std::size_t bytes) { return Add(bytes, &staging_bytes_); }
  /// A piece whose place in the slot is known.
  void Add(PlannedPiece piece) {
    if (piece.staged) piece.staging_at = AddStagingRoom(piece.bytes);
    copied_bytes_ += piece.bytes;
    pieces_.push_back(piece);
  }
  /// Room for these bytes, `room` at least, and their piece: by way of staging memory unless they
  /// are in an arena.
  std::size_t AddWhole(const void* from, std::size_t bytes, std::size_t room = 0) {
    const std::size_t to = AddRoom(std::max(bytes, room));
    if (bytes == 0) return to;
    const auto* const data = static_cast<const std::byte*>(from);
    const std::shared_ptr<Arena> arena = Arena::Containing(data);
    const bool staged = arena == nullptr || data + bytes > arena->data() + arena->bytes();
    Add({.from = data, .to = to, .bytes = bytes, .staged = staged});
    return to;
  }

 private:
  static std::size_t Add(std::size_t bytes, std::size_t* end) {
    const std::size_t at = AlignUp(*end);
    *end = at + bytes;
    return at;
  }

  std::vector<PlannedPiece> pieces_;
  std::size_t slot_bytes_ = 0;
  std::size_t staging_bytes_ = 0;
  std::size_t copied_bytes_ = 0;
};

}  // namespace ringfeed
