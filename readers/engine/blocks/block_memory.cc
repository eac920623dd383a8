#include "readers/engine/blocks/block_memory.h"

#include <algorithm>
#include <utility>

namespace ringfeed {
namespace {

constexpr std::size_t kRunBytes = 512 * 1024;
constexpr std::size_t kAlignment = 64;

}  // namespace

BlockMemory::~BlockMemory() {
  CloseRun();
  for (const SlabRun& run : full_) arena_->Free(run);
}

void BlockMemory::CloseRun() {
  if (!run_) return;
  full_.push_back(arena_->Trim(std::exchange(run_, {}), std::exchange(used_, 0)));
}

std::byte* BlockMemory::Allocate(std::size_t bytes) {
  if (run_.bytes - used_ < bytes) {
    CloseRun();
    run_ = arena_->Allocate(std::max(bytes, kRunBytes));
    if (!run_) run_ = arena_->Allocate(bytes);  // it may be just enough
    exhausted_ = !run_;
    if (exhausted_) return nullptr;
  }
  std::byte* const piece = run_.data + used_;
  const std::size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  used_ = std::min(run_.bytes, used_ + taken);
  return piece;
}

void BlockMemory::GiveTo(Block* block) {
  CloseRun();
  block->runs.insert(block->runs.end(), full_.begin(), full_.end());
  full_.clear();
}

}  // namespace ringfeed
