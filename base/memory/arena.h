#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ringfeed {

/// How a pinned arena is made.
struct ArenaOptions {
  std::size_t bytes = 0;            ///< 0: a quarter of the cgroup's (else the machine's) memory
  std::size_t slab_bytes = 131072;  ///< granule of allocation; a power of two, at least 64 KiB
  bool huge_pages = true;           ///< ask for 2 MiB pages (MADV_HUGEPAGE)
};

/// What an arena got, as measured.
struct ArenaReport {
  std::size_t bytes = 0;            ///< address range
  std::size_t populated_bytes = 0;  ///< faulted in so far
  std::size_t huge_bytes = 0;       ///< of these in huge pages, when memory was last populated
  std::size_t in_use_bytes = 0;     ///< handed out now
  std::size_t peak_in_use_bytes = 0;
  std::string pages;  ///< "huge", or "4 KiB: <reason>"
};

/// How much of an arena is handed out. Costs less than a report.
struct ArenaUse {
  std::size_t bytes = 0;
  std::size_t in_use_bytes = 0;
  std::size_t peak_in_use_bytes = 0;
};

/// A contiguous piece of an arena: one or more whole slabs. A plain value; its holder frees it.
struct SlabRun {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  ///< a multiple of the arena's slab_bytes
  explicit operator bool() const { return data != nullptr; }
};

/// One anonymous, 2 MiB-aligned range that all slabs of a process's pipelines come from: reserved
/// at construction, populated in the background just ahead of the highest slab ever used (so that
/// an arena larger than a job needs costs nothing), never given back before destruction. Thread
/// safe.
class Arena {
 public:
  /// Reserves the range. Throws Error(kResourceExhausted) with the remedy if the system refuses it.
  static std::shared_ptr<Arena> Create(const ArenaOptions& options);
  /// Hands out slabs of a range that is not host memory (a device's) and begins at a multiple of 64
  /// KiB. The arena never touches the range, and Containing does not find it. `give_back` is called
  /// when the arena ends. Throws Error if the range does not hold a slab.
  static std::shared_ptr<Arena> Over(std::byte* data, std::size_t bytes,
                                     std::function<void()> give_back);
  /// The process's arena, made at the first call with default options (or `RINGFEED_ARENA_BYTES`).
  static std::shared_ptr<Arena> Default();
  /// The arena that an address lies in; null for other memory.
  static std::shared_ptr<Arena> Containing(const std::byte* address);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A run of at least `bytes` at the lowest free address; empty if no gap is large enough. Never
  /// blocks on other users; the memory is populated when this returns. Contents are unspecified.
  /// `hint` is the start of an earlier run: the new run begins there if that is free, so that a
  /// thread gets memory that is still in its cache.
  SlabRun Allocate(std::size_t bytes, const std::byte* hint = nullptr);
  /// Makes a run longer in place, to at least `bytes`. If the memory after it is taken, returns
  /// false and changes nothing.
  bool Extend(SlabRun* run, std::size_t bytes);
  /// Returns a run, or the tail [keep_bytes, run.bytes) of one: Trim keeps the rounded-up head.
  void Free(SlabRun run);
  SlabRun Trim(SlabRun run, std::size_t keep_bytes);

  std::byte* data() const;
  std::size_t bytes() const;
  std::size_t slab_bytes() const;
  ArenaReport Report() const;
  ArenaUse Use() const;

  /// Calls `function` once when the arena ends, on the thread that drops the last reference, before
  /// the range is unmapped. It undoes what was made of the range, and must not throw. Returns a
  /// number for CancelAtEnd. Not called in a child of fork, which has no range.
  std::uint64_t CallAtEnd(std::function<void()> function);
  /// Drops that function.
  void CancelAtEnd(std::uint64_t number);

  /// Sets `bytes` of the range aside for one pipeline: the sum over pipelines never exceeds the
  /// range. False if less is left. Accounting only; ReleaseQuota gives it back.
  bool ReserveQuota(std::size_t bytes);
  void ReleaseQuota(std::size_t bytes);
  std::size_t unreserved_bytes() const;

 private:
  explicit Arena(const ArenaOptions& options);
  struct Impl;
  explicit Arena(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringfeed
