#pragma once

#include <cstddef>
#include <memory>

namespace ringfeed {

class Arena;

/// The pinned memory that pipelines take their slabs and batches from. The process has one by
/// itself, made when it is first needed: a quarter of the cgroup's memory limit, or
/// RINGFEED_ARENA_BYTES. A program that wants another size, or several, makes its own and hands it
/// to OpenOptions::arena. The memory lives as long as anything that was read through it. A child of
/// fork does not have it: only the process that made it may access it. Thread safe.
class PinnedArena {
 public:
  /// Reserves `bytes` of address space; pages are populated in the background as they come into
  /// use. Throws Error(kResourceExhausted) with the remedy if the system refuses.
  explicit PinnedArena(std::size_t bytes, bool huge_pages = true);
  /// For ringfeed's own use.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

 private:
  std::shared_ptr<Arena> arena_;
};

}  // namespace ringfeed
