#include "readers/engine/blocks/block_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "base/memory/arena.h"

namespace ringfeed {
namespace {

std::shared_ptr<Arena> SmallArena() { return Arena::Create({.bytes = std::size_t{16} << 20}); }

SlabRun Slab(Arena* arena) { return arena->Allocate(arena->slab_bytes()); }

TEST(BlockPoolTest, ABlockComesBackEmptyAndWithoutItsSlabs) {
  const auto arena = SmallArena();
  BlockPool pool(arena);
  Block* const block = pool.Take();
  block->runs.push_back(Slab(arena.get()));
  block->frame.records.resize(3);
  block->status = Status(StatusCode::kDamaged, "x");
  block->credits = 7;
  block->payload_bytes = 100;
  block->pass_ends = block->stream_ends = block->of_dropped_rest = true;
  const auto kept = std::make_shared<int>(1);
  block->storage.push_back(kept);
  const std::size_t used = arena->Report().in_use_bytes;
  pool.GiveBack(block);
  EXPECT_LT(arena->Report().in_use_bytes, used);
  EXPECT_EQ(kept.use_count(), 1);
  ASSERT_EQ(pool.Take(), block);
  EXPECT_EQ(block->rows(), 0u);
  EXPECT_TRUE(block->status.ok());
  EXPECT_EQ(block->credits, 1);
  EXPECT_EQ(block->payload_bytes, 0u);
  EXPECT_FALSE(block->pass_ends || block->stream_ends || block->of_dropped_rest);
}

TEST(BlockPoolTest, BlocksThatAreOutAreTwoAndNumbered) {
  BlockPool pool(SmallArena());
  std::set<std::uint32_t> numbers;
  std::vector<Block*> out;
  constexpr std::uint32_t kBlocks = 10'000;  // more than its ring holds
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    out.push_back(pool.Take());
    numbers.insert(out.back()->index);
  }
  EXPECT_EQ(numbers.size(), kBlocks);
  EXPECT_EQ(*numbers.rbegin(), kBlocks - 1);
  for (Block* block : out) pool.GiveBack(block);
  std::set<Block*> again;
  for (std::uint32_t i = 0; i < kBlocks; ++i) again.insert(pool.Take());
  EXPECT_EQ(again, std::set<Block*>(out.begin(), out.end()));
}

TEST(BlockPoolTest, SlabsOfBlocksThatAreOutGoWithThePool) {
  const auto arena = SmallArena();
  const std::size_t used = arena->Report().in_use_bytes;
  {
    BlockPool pool(arena);
    pool.Take()->runs.push_back(Slab(arena.get()));
    EXPECT_GT(arena->Report().in_use_bytes, used);
  }
  EXPECT_EQ(arena->Report().in_use_bytes, used);
}

}  // namespace
}  // namespace ringfeed
