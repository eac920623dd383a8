#pragma once

#include <cstddef>
#include <memory>

namespace ringfeed {

class Arena;

/// The pinned memory that pipelines take their slabs and batches from. One for the process is made
/// when first needed (a quarter of the cgroup's memory limit, or RINGFEED_ARENA_BYTES); a program
/// that wants another size, or several, makes its own and hands it to OpenOptions::arena. Lives as
/// long as anything that was read through it. A child of fork does not have it: what lies in it may
/// be looked at in the process alone that made it.
class PinnedArena {
 public:
  /// Reserves `bytes` of address space; pages are populated in the background as they come into
  /// use. Throws Error(kResourceExhausted) with the remedy where the system refuses.
  explicit PinnedArena(std::size_t bytes, bool huge_pages = true);
  const std::shared_ptr<Arena>& arena() const { return arena_; }

 private:
  std::shared_ptr<Arena> arena_;
};

}  // namespace ringfeed
