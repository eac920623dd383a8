#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "base/memory/arena.h"
#include "readers/engine/waiting/keep_limit.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A chain's part of the arena: for reading, for what the plan holds back, for batches, and for
/// blocks that batches keep, of which there may be none.
/// It begins with what reading needs and half as much, and grows as batches and shuffles need it,
/// so that many chains may be open beside each other. It hands out no memory itself.
///
/// Thread safety: NoteHeld, NoteFreed, held_bytes, Keep and LetGo may be called by any thread;
/// MayHold, WhyNot, GrantBatches, AllowKept and GrowKept by the thread that runs the plan; the
/// others while no thread of the run exists. None waits.
class MemoryBudget {
 public:
  /// `asked`: so many bytes are the chain's, from the beginning; 0: as many as it needs, of half of
  /// what is free now. `name`: what the chain reads, for messages to chains that get nothing.
  MemoryBudget(std::shared_ptr<Arena> arena, std::size_t asked, std::string name);
  ~MemoryBudget() { Release(); }
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// The limit of a chain that is given so much: see the constructor.
  static std::size_t LimitOf(std::size_t asked, const Arena& arena);

  /// Takes the part for reading and the least of the others. False if there is not that much; then
  /// nothing is taken.
  bool TryReserve(std::size_t reading_bytes);
  /// The same. Throws Error, which names the holders of the arena, if there is not that much.
  void Reserve(std::size_t reading_bytes);
  /// Gives all of it back. Memory that is handed out stays in the arena.
  void Release();

  /// What it may grow to.
  std::size_t limit() const { return limit_; }

  /// Whether the plan may hold back so many bytes more than it does; grows for that.
  bool MayHold(std::size_t bytes);
  /// Why it may not.
  Status WhyNot() const;
  void NoteHeld(std::size_t bytes) { held_.fetch_add(bytes, std::memory_order_relaxed); }
  /// So many bytes are free again, which may make MayHold true: wake_plan() has the plan look again
  /// if it may have waited for that. Nothing else lowers what is held back.
  template <typename WakePlan>
  void NoteFreed(std::size_t bytes, WakePlan&& wake_plan) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);  // before the wake, which orders it
    wake_plan();
  }
  std::size_t held_bytes() const { return held_.load(std::memory_order_relaxed); }

  /// Grows so that batches have that much, or a half, a quarter and so on of it; returns how much.
  std::size_t GrantBatches(std::size_t bytes);

  /// Lets batches keep so many bytes of blocks, but at most a quarter of what the chain has besides
  /// reading: no thread waits for that memory, and it gives way if the plan must hold back more.
  /// Nothing is reserved for it before some was refused and GrowKept is called.
  void AllowKept(std::size_t bytes);
  void GrowKept();
  /// Whether batches may keep so many bytes more; then they do, until LetGo.
  bool Keep(std::size_t bytes);
  void LetGo(std::size_t bytes) { keep_limit_.LetGo(bytes); }

 private:
  std::size_t MostHeld() const { return (limit_ - reading_) * 3 / 4; }
  std::size_t Wanted(std::size_t reading_bytes) const;
  [[noreturn]] void Refuse(std::size_t needed) const;
  /// Raises the reserve to this. False if the arena has not that much left.
  bool Hold(std::size_t bytes);
  /// Makes the reserve cover these, or the limit. False if the arena has not that much left, or if
  /// the limit is less than what is held alone.
  bool Cover(std::size_t held_limit, std::size_t batches);
  /// Lets the plan hold back `needed` bytes, and some more, so that it grows seldom.
  bool GrowHeld(std::size_t needed);
  /// What is left for blocks that are kept.
  std::size_t RestForKept() const;

  const std::shared_ptr<Arena> arena_;
  const std::size_t asked_;
  const std::string name_;
  std::size_t limit_;
  std::size_t reserved_ = 0;
  std::size_t reading_ = 0;
  std::size_t held_limit_ = 0;
  std::size_t batches_ = 0;
  std::size_t wanted_kept_ = 0;
  std::atomic<std::size_t> held_{0};  ///< by blocks that were taken and are not free again
  KeepLimit keep_limit_;
  std::atomic<bool> kept_refused_{false};  ///< since GrowKept; a hint
};

}  // namespace ringfeed
