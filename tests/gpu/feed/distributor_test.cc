#include "gpu/feed/distributor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/gpu/feed/numbered_batches.h"

namespace ringfeed {
namespace {

/// Batches of given rows, then the end or a failure.
class ListedSupply final : public BatchSupply {
 public:
  explicit ListedSupply(std::vector<std::int64_t> rows, bool fails = false,
                        std::int64_t usual_rows = 0)
      : rows_(std::move(rows)), fails_(fails), usual_rows_(usual_rows) {}
  SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override {
    (void)stop;
    if (next_ == rows_.size() && fails_) *status = Status(StatusCode::kDamaged, "record 7");
    if (next_ == rows_.size()) return fails_ ? SupplyResult::kFailed : SupplyResult::kEnd;
    batch->origin.batch = next_;
    batch->tensors = NumberedBatch{next_, rows_[next_], true}.Make(nullptr);
    ++next_;
    return SupplyResult::kBatch;
  }
  void ReInit() override { next_ = 0; }
  Rows rows() const override { return {.usual = usual_rows_}; }

 private:
  const std::vector<std::int64_t> rows_;
  const bool fails_;
  const std::int64_t usual_rows_;
  std::size_t next_ = 0;
};

struct Item {
  std::uint64_t number;
  std::vector<std::uint32_t> rows;  ///< the value of each
  std::uint64_t valid;
  friend bool operator==(const Item&, const Item&) = default;
};

void PrintTo(const Item& item, std::ostream* out) {
  *out << item.number << ": ";
  for (const std::uint32_t row : item.rows) *out << row << " ";
  *out << "(" << item.valid << ")";
}

/// The rows' values, after a look at the ragged field: each row's values follow from its number.
std::vector<std::uint32_t> RowsIn(const Instance& batch) {
  std::vector<std::uint32_t> rows;
  const auto numbers = batch[0].Values<std::uint32_t>();
  const auto tokens = batch[1].Values<std::uint16_t>();
  const auto offsets = batch[1].lod[0];
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    const std::uint32_t value = numbers[r * NumberedBatch::kColumns];
    rows.push_back(value);
    EXPECT_EQ(offsets[r + 1] - offsets[r], NumberedBatch::Length(value / 1000, value % 1000));
    for (auto i = static_cast<std::size_t>(offsets[r] + 1);
         i < static_cast<std::size_t>(offsets[r + 1]); ++i) {
      EXPECT_EQ(tokens[i], tokens[i - 1] + 1);
    }
  }
  EXPECT_EQ(batch[0].shape[0], static_cast<std::int64_t>(rows.size()));
  EXPECT_EQ(offsets[0], 0);
  return rows;
}

std::vector<Item> Distribute(std::vector<std::int64_t> rows, std::size_t devices,
                             Distribution distribution, LastStep last_step, bool fails = false,
                             std::size_t replicas = 0) {
  ListedSupply supply(std::move(rows), fails);
  Distributor distributor(&supply, devices, distribution, last_step, replicas);
  std::vector<Item> items;
  FeedItem item;
  Status status;
  SupplyResult result{};
  while ((result = distributor.Next(&item, &status, {})) == SupplyResult::kBatch) {
    EXPECT_EQ(item.number, items.size());
    items.push_back({item.number, RowsIn(item.batch), item.valid_rows});
    EXPECT_EQ(item.rows, items.back().rows.size());
  }
  EXPECT_EQ(result, fails ? SupplyResult::kFailed : SupplyResult::kEnd);
  EXPECT_EQ(status.code(), fails ? StatusCode::kDamaged : StatusCode::kOk);
  return items;
}

using Items = std::vector<Item>;

TEST(DistributorTest, BatchesGoRoundAsTheyCome) {
  EXPECT_EQ(Distribute({2, 2, 1}, 2, Distribution::kRoundRobin, LastStep::kUneven),
            (Items{{0, {0, 1}, 2}, {1, {1000, 1001}, 2}, {2, {2000}, 1}}));
}

TEST(DistributorTest, AnIncompleteLastStepIsDroppedAndCounted) {
  ListedSupply supply({2, 2, 2, 1, 1});
  Distributor distributor(&supply, 3, Distribution::kRoundRobin, LastStep::kDrop);
  FeedItem item;
  Status status;
  int items = 0;
  while (distributor.Next(&item, &status, {}) == SupplyResult::kBatch) ++items;
  EXPECT_EQ(items, 3);
  EXPECT_EQ(distributor.dropped_rows(), 2U);
}

TEST(DistributorTest, AnIncompleteLastStepIsFilledUpByRowsThatDoNotCount) {
  EXPECT_EQ(Distribute({2, 2, 2, 1}, 3, Distribution::kRoundRobin, LastStep::kPad),
            (Items{{0, {0, 1}, 2},
                   {1, {1000, 1001}, 2},
                   {2, {2000, 2001}, 2},
                   {3, {3000, 3000}, 1},
                   {4, {3000, 3000}, 0},
                   {5, {3000, 3000}, 0}}));
}

TEST(DistributorTest, TheRowsOfAnIncompleteLastStepAreSpreadOverAllDevices) {
  EXPECT_EQ(Distribute({3, 3, 3, 2}, 3, Distribution::kRoundRobin, LastStep::kShort),
            (Items{{0, {0, 1, 2}, 3},
                   {1, {1000, 1001, 1002}, 3},
                   {2, {2000, 2001, 2002}, 3},
                   {3, {3000}, 1},
                   {4, {3001}, 1},
                   {5, {}, 0}}));
}

TEST(DistributorTest, EveryBatchIsCutIntoAPartForEachDevice) {
  EXPECT_EQ(Distribute({5, 1}, 2, Distribution::kSplit, LastStep::kUneven),
            (Items{{0, {0, 1, 2}, 3}, {1, {3, 4}, 2}, {2, {1000}, 1}, {3, {}, 0}}));
  EXPECT_EQ(Distribute({4, 3}, 2, Distribution::kSplit, LastStep::kDrop),
            (Items{{0, {0, 1}, 2}, {1, {2, 3}, 2}}));
  EXPECT_EQ(Distribute({4, 3}, 2, Distribution::kSplit, LastStep::kPad),
            (Items{{0, {0, 1}, 2}, {1, {2, 3}, 2}, {2, {1000, 1001}, 2}, {3, {1002, 1000}, 1}}));
}

// As of so many groups, each item once for each device of its group.
TEST(DistributorTest, EveryDeviceOfAGroupGetsTheBatchesOfItsGroup) {
  for (const LastStep last_step :
       {LastStep::kUneven, LastStep::kDrop, LastStep::kPad, LastStep::kShort}) {
    for (const std::size_t replicas : {1U, 2U, 3U, 6U}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(last_step) << ", by " << replicas);
      const Items groups =
          Distribute({3, 3, 3, 3, 2}, 6 / replicas, Distribution::kRoundRobin, last_step);
      const Items items =
          Distribute({3, 3, 3, 3, 2}, 6, Distribution::kReplicate, last_step, false, replicas);
      ASSERT_EQ(items.size(), replicas * groups.size());
      for (const Item& item : items) {
        const Item& of_group = groups[item.number / replicas];
        EXPECT_EQ(item.rows, of_group.rows);
        EXPECT_EQ(item.valid, of_group.valid);
      }
    }
  }
  EXPECT_EQ(Distribute({2, 1}, 3, Distribution::kReplicate, LastStep::kUneven),
            Distribute({2, 1}, 3, Distribution::kReplicate, LastStep::kUneven, false, 3));
}

/// The rows of each item, repeated ones counted.
std::vector<std::uint64_t> RowsOfItems(Distributor* distributor) {
  std::vector<std::uint64_t> rows;
  FeedItem item;
  Status status;
  while (distributor->Next(&item, &status, {}) == SupplyResult::kBatch) rows.push_back(item.rows);
  return rows;
}

// Else it would hang on how far a feed had read ahead before it was started again.
TEST(DistributorTest, WhatCameBeforeAStartIsForgotten) {
  for (const LastStep last_step : {LastStep::kDrop, LastStep::kPad}) {
    ListedSupply supply({4, 5, 4});
    Distributor distributor(&supply, 1, Distribution::kSplit, last_step);
    const std::vector<std::uint64_t> rows = RowsOfItems(&distributor);
    EXPECT_EQ(rows.front(), 4U);
    supply.ReInit();
    distributor.Reset();
    EXPECT_EQ(RowsOfItems(&distributor), rows);
  }
}

// Or on where a run began, which knows of its first batch that whole ones came before it.
TEST(DistributorTest, ABatchThatLostRowsIsWholeIfAnotherOneFollowsIt) {
  ListedSupply supply({4, 4, 4, 1}, false, 5);
  Distributor padded(&supply, 2, Distribution::kRoundRobin, LastStep::kPad);
  EXPECT_EQ(RowsOfItems(&padded), (std::vector<std::uint64_t>{5, 5, 5, 5}));
  ListedSupply alone({4}, false, 5);
  Distributor few(&alone, 2, Distribution::kRoundRobin, LastStep::kPad);
  EXPECT_EQ(RowsOfItems(&few), (std::vector<std::uint64_t>{4, 4}));
}

TEST(DistributorTest, WhatIsGoodComesBeforeAFailureAsItIs) {
  for (const LastStep last_step :
       {LastStep::kUneven, LastStep::kDrop, LastStep::kPad, LastStep::kShort}) {
    EXPECT_EQ(Distribute({2, 2, 2}, 2, Distribution::kRoundRobin, last_step, true).size(), 3U);
  }
}

/// Instances whose tensors have two rows and three.
class UnevenSupply final : public BatchSupply {
 public:
  SupplyResult Take(SuppliedBatch* batch, Status*, const std::stop_token&) override {
    if (taken_) return SupplyResult::kEnd;
    taken_ = true;
    const Instance two = NumberedBatch{0, 2}.Make(nullptr);
    const Instance three = NumberedBatch{1, 3}.Make(nullptr);
    batch->tensors = {two[0], three[0]};
    return SupplyResult::kBatch;
  }
  void ReInit() override { taken_ = false; }

 private:
  bool taken_ = false;
};

TEST(DistributorTest, TensorsOfDifferentRowsAreRefusedOnlyWhereRowsAreMoved) {
  UnevenSupply supply;
  for (const LastStep last_step : {LastStep::kUneven, LastStep::kShort}) {
    Distributor distributor(&supply, 1, Distribution::kRoundRobin, last_step);
    FeedItem item;
    Status status;
    const SupplyResult result = distributor.Next(&item, &status, {});
    EXPECT_EQ(result,
              last_step == LastStep::kUneven ? SupplyResult::kBatch : SupplyResult::kFailed);
    EXPECT_EQ(status.ok(), last_step == LastStep::kUneven);
    supply.ReInit();
  }
}

/// Origin of each item, and whether it completes what it is of.
using Origins = std::vector<std::pair<std::uint64_t, bool>>;

Origins OriginsOf(std::vector<std::int64_t> rows, Distribution distribution, LastStep last_step) {
  ListedSupply supply(std::move(rows));
  Distributor distributor(&supply, 2, distribution, last_step);
  Origins origins;
  FeedItem item;
  Status status;
  while (distributor.Next(&item, &status, {}) == SupplyResult::kBatch) {
    origins.emplace_back(item.origin.batch, item.completes);
  }
  return origins;
}

TEST(DistributorTest, EveryItemKnowsItsBatchAndTheLastOneOfItsRowsCompletesIt) {
  constexpr auto kRound = Distribution::kRoundRobin;
  EXPECT_EQ(OriginsOf({2, 2, 1}, kRound, LastStep::kUneven),
            (Origins{{0, true}, {1, true}, {2, true}}));
  EXPECT_EQ(OriginsOf({4, 2}, Distribution::kSplit, LastStep::kUneven),
            (Origins{{0, false}, {0, true}, {1, false}, {1, true}}));
  EXPECT_EQ(OriginsOf({2, 2}, Distribution::kReplicate, LastStep::kUneven),
            (Origins{{0, false}, {0, true}, {1, false}, {1, true}}));
  EXPECT_EQ(OriginsOf({2, 2, 2}, kRound, LastStep::kPad),
            (Origins{{0, true}, {1, true}, {2, true}, {2, true}}));
  EXPECT_EQ(OriginsOf({2, 2, 2}, kRound, LastStep::kShort),
            (Origins{{0, true}, {1, true}, {2, false}, {2, true}}));
  EXPECT_EQ(OriginsOf({2, 2, 2}, kRound, LastStep::kDrop), (Origins{{0, true}, {1, true}}));
}

TEST(DistributorTest, EveryDeviceStepsEquallyOftenWhereThatIsAskedFor) {
  for (const LastStep last_step : {LastStep::kDrop, LastStep::kPad, LastStep::kShort}) {
    for (std::size_t devices = 1; devices <= 5; ++devices) {
      for (std::size_t batches = 0; batches <= 11; ++batches) {
        const auto items = Distribute(std::vector<std::int64_t>(batches, 3), devices,
                                      Distribution::kRoundRobin, last_step);
        EXPECT_EQ(items.size() % devices, 0U);
        std::uint64_t valid = 0;
        for (const Item& item : items) valid += item.valid;
        const std::size_t dropped = last_step == LastStep::kDrop ? batches % devices : 0;
        EXPECT_EQ(valid, 3 * (batches - dropped));
      }
    }
  }
}

}  // namespace
}  // namespace ringfeed
