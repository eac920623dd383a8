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

/// What an arena got, verified, not hoped for.
struct ArenaReport {
  std::size_t bytes = 0;            ///< address range
  std::size_t populated_bytes = 0;  ///< faulted in so far
  std::size_t huge_bytes = 0;       ///< of these in huge pages, when memory was last populated
  std::size_t in_use_bytes = 0;     ///< handed out now
  std::size_t peak_in_use_bytes = 0;
  std::string pages;  ///< "huge", or "4 KiB: <reason>"
};

/// What of an arena is handed out; takes less than a report.
struct ArenaUse {
  std::size_t bytes = 0;
  std::size_t in_use_bytes = 0;
  std::size_t peak_in_use_bytes = 0;
};

/// A contiguous piece of an arena: one or more whole slabs. A plain value; whoever holds it frees
/// it.
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
  /// Hands out slabs of a range that is not host memory, a device's, which begins at a multiple of
  /// 64 KiB: it is never touched here, and Containing does not know it. `give_back` is called when
  /// the arena ends. Throws Error where the range does not hold a slab.
  static std::shared_ptr<Arena> Over(std::byte* data, std::size_t bytes,
                                     std::function<void()> give_back);
  /// The process's arena, made at the first call with default options (or `RINGFEED_ARENA_BYTES`).
  static std::shared_ptr<Arena> Default();
  /// The arena that an address lies in; null for other memory.
  static std::shared_ptr<Arena> Containing(const std::byte* address);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A run of at least `bytes`, lowest address first; empty where no gap is large enough. Never
  /// blocks on other users; memory is populated when this returns. Contents are unspecified.
  /// With `hint`, the start of an earlier run, at that address where it is free: a thread that asks
  /// for what it had before finds it in its cache.
  SlabRun Allocate(std::size_t bytes, const std::byte* hint = nullptr);
  /// Makes a run longer where it stands, to at least `bytes`; false, with nothing changed, where
  /// what stands behind it is taken.
  bool Extend(SlabRun* run, std::size_t bytes);
  /// Returns a run, or the tail [keep_bytes, run.bytes) of one: Trim keeps the rounded-up head.
  void Free(SlabRun run);
  SlabRun Trim(SlabRun run, std::size_t keep_bytes);

  std::byte* data() const;
  std::size_t bytes() const;
  std::size_t slab_bytes() const;
  ArenaReport Report() const;
  ArenaUse Use() const;

  /// Calls `function` once when the arena ends, on the thread that lets go of it last, before the
  /// range is unmapped: whoever made something of the range undoes it there. The function must not
  /// throw. Returns a number for CancelAtEnd. Not called in a child of fork, which has no range.
  std::uint64_t CallAtEnd(std::function<void()> function);
  /// Calls that one no more.
  void CancelAtEnd(std::uint64_t number);

  /// Sets `bytes` of the range aside for one pipeline: the sum over pipelines never exceeds the
  /// range. False where that much is not left. Accounting only; ReleaseQuota gives it back.
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
