#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/blocks/run_memory.h"
#include "readers/parsers/parser.h"
#include "ringfeed/queue/mpmc_ring.h"

namespace ringfeed {

/// How much memory a batch needs, as far as it is planned.
struct BatchNeed {
  std::uint64_t sequence = 0;  ///< as of BatchBuffer
  std::uint64_t pass = 0;
  std::span<const std::uint64_t> units{};     ///< per field
  std::span<const std::uint32_t> row_ends{};  ///< as of BatchBuffer
  std::uint32_t rows = 0;
  bool is_closed = false;  ///< no more will come
};

/// The memory of batches: slots, their pieces in the arena, and the tasks that fill them. How many
/// slots there are is chosen with the first one; how large they are is learned from those before.
class BatchPool {
 public:
  static constexpr std::size_t kMaxSlots = 64;
  static constexpr std::size_t kLeastSlots = 2;
  /// If the chain does not say how many: more if batches are small, 8 MiB of them.
  static std::size_t DefaultSlots(std::size_t batch_bytes);
  struct Options {
    std::size_t rows = 1;                   ///< of a batch, at most
    std::size_t slots = 0;                  ///< 0: chosen by the size of a batch
    std::size_t wanted_slots = 0;           ///< at least these, if there is memory for them
    std::size_t least_slots = kLeastSlots;  ///< without these nothing works
    std::size_t memory_bytes = 0;           ///< all slots together
    bool pad = false;                       ///< batches have a mask
    bool note_rows = false;                 ///< BatchBuffer::row_numbers is wanted
    bool note_bytes = false;                ///< BatchBuffer::row_bytes are
  };
  /// `memory` outlives it, and grants the slots' memory.
  BatchPool(const Options& options, const Parser* parser, std::shared_ptr<Arena> arena,
            RunMemory* memory);
  ~BatchPool();

  // The planner's calls.

  /// A slot with room for what the batch has so far; its status says so if the arena has none.
  /// Null if all are in use.
  BatchBuffer* TakeSlot(const BatchNeed& need);
  /// The piece of the slot's memory that the task's rows go to: the last one, or a larger one
  /// if that is full. Null if the arena has none: see the slot's status.
  BatchBuffer::Extent* PieceFor(BatchBuffer* slot, const WriteTask& task);
  /// A batch had so many units of each field.
  void Learn(std::span<const std::uint64_t> units);
  WriteTask* NewTask();

  // Any thread's calls.

  void RecycleTask(WriteTask* task);
  /// A consumer takes the batch, which is the run's until then. False if it was let go of.
  static bool Claim(BatchBuffer* slot);
  /// The consumer has let go of the batch.
  void Release(BatchBuffer* slot);
  /// Nothing of the batch is in blocks any more. Called by the batch's holder.
  void LetGoOfBlocks(BatchBuffer* slot);
  /// Only consumers are at work any more: gives back the memory of all slots that no consumer has,
  /// and from now on of each one that is released.
  void LetGo();
  /// A batch is done with the writers. Release: a thread that finds no HasIncomplete sees what was
  /// done for it.
  void NoteComplete() { incomplete_.fetch_sub(1, std::memory_order_release); }
  bool HasIncomplete() const {
    // Order: partner of NoteComplete, which follows the drops of that batch's blocks.
    return incomplete_.load(std::memory_order_acquire) > 0;
  }
  /// Slots that exist at most; fixed once the first batch was planned.
  std::size_t slot_limit() const { return slot_limit_.load(std::memory_order_relaxed); }
  /// Batches that needed a larger piece while they were written.
  std::uint64_t grown() const { return grown_.load(std::memory_order_relaxed); }

 private:
  BatchBuffer::Layout LayoutFor(std::span<const std::uint64_t> capacity) const {
    return BatchBuffer::Layout(*parser_, options_.rows, capacity, options_.pad);
  }
  std::vector<std::uint64_t> CapacityFor(const BatchNeed& need) const;
  void ChooseSlotLimit(std::size_t batch_bytes);
  void FreeUnlessHeld(BatchBuffer* slot);
  void Prepare(BatchBuffer* slot, const BatchNeed& need);
  /// One extent that the batch fits in as far as it is planned, or why there is none.
  void PrepareExtent(BatchBuffer* slot, const BatchNeed& need);
  std::unique_ptr<BatchBuffer::Extent> MakeExtent(std::span<const std::uint64_t> capacity,
                                                  Status* status);
  /// A slot that is not in use, or a new one; null if there is neither.
  BatchBuffer* FreeSlot();
  /// Goes on without a slot that is not in use, and frees its memory. False if all are in use, or
  /// are needed.
  bool DropSpareSlot();
  /// The arena has no memory for the slot: goes on without it, if the others are enough.
  bool DropSlot(BatchBuffer* slot);

  const Options options_;
  const Parser* const parser_;
  const std::size_t fields_;
  const std::shared_ptr<Arena> arena_;
  RunMemory* const memory_;

  // The planner's own.
  std::vector<std::uint64_t> learned_units_;
  std::vector<std::unique_ptr<BatchBuffer>> slots_;
  std::vector<std::unique_ptr<WriteTask>> tasks_;

  // Shared with writers and consumers.
  MpmcRing<BatchBuffer*> free_slots_;
  MpmcRing<WriteTask*> free_tasks_;
  std::atomic<std::size_t> slot_limit_{0};
  std::atomic<std::uint64_t> incomplete_{0};  ///< batches with a slot that writers still fill
  std::atomic<std::uint64_t> grown_{0};
  std::atomic<std::uint32_t> let_go_{0};  ///< not 0 after LetGo; changed by read-modify-writes
};

}  // namespace ringfeed
