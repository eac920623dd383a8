#include "readers/engine/blocks/run_memory.h"

#include <algorithm>

namespace ringfeed {

RunMemory::RunMemory(const Options& options, Workers* workers, ReadAhead* lanes, PlanRequests* plan)
    : options_(options),
      workers_(workers),
      lanes_(lanes),
      plan_(plan),
      budget_(options.arena, options.asked_bytes, options.name),
      blocks_(options.block_arena) {}

bool RunMemory::KeepBytes(std::size_t bytes) {
  KeepLimit* const device = options_.device_limit;
  return device != nullptr ? device->Keep(bytes) : budget_.Keep(bytes);
}

void RunMemory::LetGoOfBytes(std::size_t bytes) {
  KeepLimit* const device = options_.device_limit;
  device != nullptr ? device->LetGo(bytes) : budget_.LetGo(bytes);
}

// The first batch that keeps a block pays for its memory, the last one gives that back.
bool RunMemory::Keep(Block* block) {
  const std::size_t bytes = block->slab_bytes();
  std::uint32_t keeps = block->keeps.load(std::memory_order_relaxed);
  while (keeps != Block::kHeld) {
    if (block->keeps.compare_exchange_weak(keeps, keeps + 1, std::memory_order_relaxed)) {
      return true;
    }
  }
  if (!KeepBytes(bytes)) {
    // The plan may set more aside, for the rows that come next.
    if (options_.device_limit == nullptr) plan_->Ask();
    return false;
  }
  // Another one may pay meanwhile: then both have, and the last of both gives back one part.
  const std::uint32_t before = block->keeps.fetch_add(1, std::memory_order_relaxed);
  if (before != Block::kHeld) LetGoOfBytes(bytes);
  return true;
}

void RunMemory::DropKeep(Block* block, std::uint32_t keep) {
  const std::size_t bytes = block->slab_bytes();
  // Order: as of holds. The thread that drops the last reason sees all reads of the block done.
  const std::uint32_t left = block->keeps.fetch_sub(keep, std::memory_order_acq_rel) - keep;
  if (keep != Block::kHeld && (left & ~Block::kHeld) == 0) LetGoOfBytes(bytes);
  if (left == 0) blocks_.GiveBack(block);
}

void RunMemory::Recycle(Block* block) {
  const std::size_t lane = block->lane;
  const std::int32_t credits = block->credits;
  const std::size_t bytes = block->payload_bytes;
  const std::size_t slab_bytes = block->slab_bytes();
  DropKeep(block, Block::kHeld);  // first: the plan goes on with this memory
  budget_.NoteFreed(slab_bytes, [this] {
    if (options_.holds_blocks) plan_->Ask();  // else it never waits for memory
  });
  if (!options_.holds_blocks) GiveCredits(lane, credits, bytes);
}

void RunMemory::GiveCredits(std::size_t lane, std::int32_t credits, std::size_t bytes) {
  lanes_->GiveBack(lane, credits, bytes, [this](std::size_t worker) { workers_->Wake(worker); });
}

void RunMemory::NotePlanned(const Block& block) {
  if (options_.holds_blocks) GiveCredits(block.lane, block.credits, block.payload_bytes);
  budget_.NoteHeld(block.slab_bytes());
}

std::size_t RunMemory::GrantBatches(std::size_t bytes) {
  const std::size_t granted = budget_.GrantBatches(bytes);
  if (options_.kept_bytes > 0) budget_.AllowKept(2 * std::max(granted, options_.kept_bytes));
  return granted;
}

bool RunMemory::ClaimRecords() {
  // Order: acq_rel, here, in LetGoOfAll and in NoteRecordsBack: the last one to come sees all uses.
  if ((held_records_.fetch_add(1, std::memory_order_acq_rel) & kLetGo) == 0) return true;
  NoteRecordsBack();
  return false;
}

void RunMemory::NoteRecordsBack() {
  if (held_records_.fetch_sub(1, std::memory_order_acq_rel) == kLetGo + 1) blocks_.LetGo();
}

void RunMemory::LetGoOfAll() {
  budget_.Release();
  if (held_records_.fetch_or(kLetGo, std::memory_order_acq_rel) == 0) blocks_.LetGo();
}

}  // namespace ringfeed
