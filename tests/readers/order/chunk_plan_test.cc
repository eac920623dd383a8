#include "readers/order/chunk_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "readers/order/place_chunks.h"

namespace ringfeed {
namespace {

/// Passes of the lengths given (the last one again and again); place p of pass n holds row
/// 1000000·n + 7·p. Counts what it is asked for.
class NumberCursor final : public RowCursor {
 public:
  struct Calls {
    std::atomic<int> seeks{0};
    std::atomic<std::uint64_t> rows{0};
  };
  NumberCursor(std::vector<std::uint64_t> lengths, bool seeks_at_once, Calls* calls)
      : lengths_(std::move(lengths)), seeks_at_once_(seeks_at_once), calls_(calls) {}

  static RowNumber RowAt(std::uint64_t pass, std::uint64_t place) {
    return 1000000 * pass + 7 * place;
  }
  std::uint64_t Places(std::uint64_t pass) override {
    return lengths_[std::min<std::size_t>(pass, lengths_.size() - 1)];
  }
  Status Seek(std::uint64_t pass, std::uint64_t place) override {
    EXPECT_LE(place, Places(pass));
    ++calls_->seeks;
    pass_ = pass;
    place_ = place;
    return {};
  }
  Status Next(std::span<RowNumber> rows, std::size_t* count) override {
    EXPECT_GE(calls_->seeks, 1) << "asked before it knew where it stands";
    calls_->rows += rows.size();
    *count = 0;
    for (RowNumber& row : rows) {
      if (place_ == fails_at) return Status(StatusCode::kDamaged, "a page of the index");
      if (place_ == Places(pass_)) break;
      row = RowAt(pass_, place_++);
      ++*count;
    }
    return {};
  }
  bool SeeksAtOnce() const override { return seeks_at_once_; }

  std::uint64_t fails_at = ~std::uint64_t{0};

 private:
  const std::vector<std::uint64_t> lengths_;
  const bool seeks_at_once_;
  Calls* const calls_;
  std::uint64_t pass_ = 0;
  std::uint64_t place_ = 0;
};

struct PlanOptions : PlaceChunks::Options {
  std::size_t lanes = 1;
};

std::unique_ptr<ChunkPlan> NewPlan(std::unique_ptr<RowCursor> cursor, const PlanOptions& options) {
  return std::make_unique<ChunkPlan>(options.lanes,
                                     std::make_unique<PlaceChunks>(std::move(cursor), options));
}

/// Takes the lanes' chunks in turn, as a plan does: the rows of each pass, by pass.
std::map<std::uint64_t, std::vector<RowNumber>> TakeAll(ChunkPlan* plan, std::uint64_t passes,
                                                        std::size_t most_rows) {
  std::map<std::uint64_t, std::vector<RowNumber>> taken;
  Chunk chunk;
  for (std::uint64_t i = 0; i < passes; ++i) {
    std::vector<bool> in_pass(plan->lanes(), true);
    std::size_t turn = 0;
    while (std::find(in_pass.begin(), in_pass.end(), true) != in_pass.end()) {
      const std::size_t lane = turn++ % plan->lanes();
      if (!in_pass[lane]) continue;
      plan->Next(lane, &chunk);
      EXPECT_TRUE(chunk.status.ok());
      if (chunk.kind == Chunk::Kind::kEnd) return taken;
      std::vector<RowNumber>& rows = taken[chunk.pass];
      if (chunk.kind == Chunk::Kind::kPassEnd) {
        in_pass[lane] = false;
        continue;
      }
      EXPECT_TRUE(!chunk.rows.empty() && chunk.rows.size() <= most_rows);
      if (chunk.rows.front() != kNoRow) {
        EXPECT_EQ(chunk.rows.front(), NumberCursor::RowAt(chunk.pass, chunk.place));
      }
      rows.insert(rows.end(), chunk.rows.begin(), chunk.rows.end());
    }
  }
  return taken;
}

/// What a rank is to get of a pass from `place` on, by the rule, place for place.
std::vector<RowNumber> SliceOf(std::uint64_t pass, std::uint64_t places, std::uint64_t place,
                               const BatchSlice& slice) {
  std::vector<RowNumber> rows;
  const std::uint64_t batch = slice.batch == 0 ? places : slice.batch;
  const std::uint64_t rest = slice.batch == 0 || place >= places ? 0 : places % batch;
  const bool uneven = rest > 0 && !slice.drop_remainder && !slice.pad;
  for (; place < places || (slice.pad && slice.batch > 0 && place % batch != 0); ++place) {
    if (slice.batch > 0) {
      const std::uint64_t share = batch / slice.ranks;
      if (place % batch / share != slice.rank) continue;
    }
    rows.push_back(place < places ? NumberCursor::RowAt(pass, place) : kNoRow);
  }
  // Of a batch that it has no row of it counts the number.
  if (uneven && rest <= slice.rank * (batch / slice.ranks)) rows.push_back(kNoRow);
  return rows;
}

TEST(ChunkPlanTest, LanesInTurnGiveTheCursorsOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    NumberCursor::Calls calls;
    const std::vector<std::uint64_t> lengths = {random() % 60, random() % 60, random() % 3};
    PlanOptions options;
    options.lanes = 1 + random() % 5;
    options.rows_per_chunk = 1 + random() % 12;
    options.passes = 3;
    options.pass = random() % 3;
    options.place = random() % (lengths[options.pass] + 1);
    const auto plan =
        NewPlan(std::make_unique<NumberCursor>(lengths, random() % 2 == 0, &calls), options);
    auto taken = TakeAll(plan.get(), 3, options.rows_per_chunk);
    for (std::uint64_t pass = options.pass; pass < 3; ++pass) {
      const std::uint64_t from = pass == options.pass ? options.place : 0;
      EXPECT_EQ(taken[pass], SliceOf(pass, lengths[pass], from, {})) << "round " << round;
      EXPECT_EQ(plan->TakeRowsOf(pass), taken[pass].size()) << "round " << round;
    }
    EXPECT_EQ(taken.size(), 3 - options.pass);
  }
}

TEST(ChunkPlanTest, SlicesOfAllRanksCoverEachBatchOnceInOrder) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t ranks = 1 + random() % 6;
    const std::uint64_t batch = ranks * (1 + random() % 5);
    const std::vector<std::uint64_t> lengths = {random() % 100, random() % 100};
    const std::uint64_t start = lengths[0] / batch == 0 ? 0 : random() % (lengths[0] / batch);
    std::vector<std::vector<RowNumber>> of_rank;
    const int policy = static_cast<int>(random() % 3);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      NumberCursor::Calls calls;
      PlanOptions options;
      options.lanes = 1 + random() % 3;
      options.rows_per_chunk = 1 + random() % 9;
      options.passes = 2;
      options.place = start * batch;
      options.slice = {batch, rank, ranks, policy == 1, policy == 2};
      const auto plan =
          NewPlan(std::make_unique<NumberCursor>(lengths, random() % 2 == 0, &calls), options);
      auto taken = TakeAll(plan.get(), 2, options.rows_per_chunk);
      for (std::uint64_t pass = 0; pass < 2; ++pass) {
        EXPECT_EQ(taken[pass],
                  SliceOf(pass, lengths[pass], pass == 0 ? options.place : 0, options.slice));
        EXPECT_EQ(plan->TakeRowsOf(pass), taken[pass].size()) << "round " << round;
      }
      of_rank.push_back(std::move(taken[0]));
    }
    // Batch by batch, rank by rank: the order itself.
    std::vector<RowNumber> together;
    const std::size_t share = batch / ranks;
    for (std::size_t at = 0; at < of_rank[0].size(); at += share) {
      for (const std::vector<RowNumber>& rows : of_rank) {
        for (std::size_t i = at; i < std::min(at + share, rows.size()); ++i) {
          together.push_back(rows[i]);
        }
      }
    }
    std::erase(together, kNoRow);
    std::vector<RowNumber> expected;
    for (std::uint64_t p = start * batch; p < lengths[0]; ++p) {
      expected.push_back(NumberCursor::RowAt(0, p));
    }
    EXPECT_EQ(together, expected) << "round " << round;
  }
}

TEST(ChunkPlanTest, StartsInTheMiddleOfABatch) {
  for (std::uint64_t place = 0; place <= 20; ++place) {
    NumberCursor::Calls calls;
    PlanOptions options;
    options.rows_per_chunk = 3;
    options.place = place;
    options.slice = {8, 1, 2, false, true};
    const auto plan = NewPlan(
        std::make_unique<NumberCursor>(std::vector<std::uint64_t>{20}, true, &calls), options);
    EXPECT_EQ(TakeAll(plan.get(), 1, 3)[0], SliceOf(0, 20, place, options.slice)) << place;
  }
}

TEST(ChunkPlanTest, ARestThatIsDroppedIsGivenInChunksThatSayIt) {
  for (const std::uint64_t rank : {0U, 1U}) {
    NumberCursor::Calls calls;
    PlanOptions options;
    options.rows_per_chunk = 100;
    options.slice = {8, rank, 2, true, false};
    const auto plan = NewPlan(
        std::make_unique<NumberCursor>(std::vector<std::uint64_t>{20}, true, &calls), options);
    Chunk chunk;
    plan->Next(0, &chunk);
    EXPECT_EQ(chunk.rows.size(), 8u);
    EXPECT_FALSE(chunk.of_dropped_rest);
    plan->Next(0, &chunk);
    EXPECT_EQ(chunk.rows.size(), rank == 0 ? 4u : 0u);
    EXPECT_EQ(chunk.of_dropped_rest, rank == 0);
    EXPECT_EQ(chunk.kind, rank == 0 ? Chunk::Kind::kRows : Chunk::Kind::kPassEnd);
  }
}

TEST(ChunkPlanTest, PassesOverOtherRanksPlacesAsTheCursorLikes) {
  PlanOptions options;
  options.rows_per_chunk = 100;
  options.slice = {4000, 3, 4, false, false};
  for (const bool seeks_at_once : {true, false}) {
    NumberCursor::Calls calls;
    const auto plan = NewPlan(
        std::make_unique<NumberCursor>(std::vector<std::uint64_t>{40000}, seeks_at_once, &calls),
        options);
    EXPECT_EQ(TakeAll(plan.get(), 1, 100)[0].size(), 10000u);
    EXPECT_EQ(calls.seeks, seeks_at_once ? 10 : 1);
    EXPECT_EQ(calls.rows, seeks_at_once ? 10000u : 37000u);
  }
}

TEST(ChunkPlanTest, PassesWithoutEndFollowEachOther) {
  NumberCursor::Calls calls;
  PlanOptions options;
  options.lanes = 3;
  options.rows_per_chunk = 4;
  options.passes = 0;
  const auto plan = NewPlan(
      std::make_unique<NumberCursor>(std::vector<std::uint64_t>{10}, true, &calls), options);
  auto taken = TakeAll(plan.get(), 50, 4);
  ASSERT_EQ(taken.size(), 50u);
  EXPECT_EQ(taken[49], SliceOf(49, 10, 0, {}));
}

TEST(ChunkPlanTest, AFailureOfTheOrderStandsBehindTheRowsBeforeIt) {
  NumberCursor::Calls calls;
  auto cursor = std::make_unique<NumberCursor>(std::vector<std::uint64_t>{30}, true, &calls);
  cursor->fails_at = 13;
  PlanOptions options;
  options.lanes = 2;
  options.rows_per_chunk = 5;
  const auto plan = NewPlan(std::move(cursor), options);
  Chunk chunk;
  plan->Next(0, &chunk);
  plan->Next(1, &chunk);
  EXPECT_EQ(chunk.rows.size(), 5u);
  plan->Next(0, &chunk);
  EXPECT_EQ(chunk.rows.size(), 3u);
  EXPECT_EQ(chunk.status.code(), StatusCode::kDamaged);
  plan->Next(1, &chunk);
  EXPECT_EQ(chunk.kind, Chunk::Kind::kEnd);
}

TEST(ChunkPlanTest, LanesMayAskFromManyThreads) {
  constexpr std::size_t kLanes = 4;
  NumberCursor::Calls calls;
  PlanOptions options;
  options.lanes = kLanes;
  options.rows_per_chunk = 7;
  options.passes = 20;
  const auto plan = NewPlan(
      std::make_unique<NumberCursor>(std::vector<std::uint64_t>{500}, true, &calls), options);
  std::vector<std::vector<RowNumber>> rows(kLanes);
  std::vector<std::thread> threads;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    threads.emplace_back([&plan, &mine = rows[lane], lane] {
      Chunk chunk;
      do {
        plan->Next(lane, &chunk);
        mine.insert(mine.end(), chunk.rows.begin(), chunk.rows.end());
      } while (chunk.kind != Chunk::Kind::kEnd);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<RowNumber> all;
  for (const auto& each : rows) {
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 10000u);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(ChunkPlanTest, ChunksAreOfAboutTheSameBytes) {
  EXPECT_EQ(RowsPerChunk(1), 4096u);
  EXPECT_EQ(RowsPerChunk(160), 4096u);
  EXPECT_EQ(RowsPerChunk(110 * 1024), 6u);
  EXPECT_EQ(RowsPerChunk(std::uint64_t{1} << 40), 1u);
  EXPECT_EQ(RowsPerChunk(0), 4096u);
}

}  // namespace
}  // namespace ringfeed
