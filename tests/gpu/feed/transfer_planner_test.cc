#include "gpu/feed/transfer_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random_bits.h"

namespace ringfeed {
namespace {

constexpr std::size_t kLongest = 40'000;

/// A row of one slab.
struct StandingRow {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};
using StandingRows = std::vector<StandingRow>;

// What a way to bring rows costs, once more, from its definition: of the CPU and the link together,
// beyond what is wanted on the link.
double AloneNs(const TransferCosts& costs, const StandingRow& row) {
  const double copied_ns = costs.copy_ns_per_kib * static_cast<double>(row.bytes) / 1024;
  return std::min(costs.member_ns, copied_ns);
}

double EachNs(const TransferCosts& costs, const StandingRows& rows) {
  double ns = 0;
  for (const StandingRow& row : rows) ns += AloneNs(costs, row);
  return ns;
}

std::size_t WantedBytes(const StandingRows& rows) {
  std::size_t bytes = 0;
  for (const StandingRow& row : rows) bytes += row.bytes;
  return bytes;
}

std::size_t CopiedBytes(const StandingRows& rows) {
  return rows.back().begin + rows.back().bytes - rows.front().begin;
}

double TogetherNs(const TransferCosts& costs, const StandingRows& rows) {
  const std::size_t in_vain = CopiedBytes(rows) - WantedBytes(rows);
  return costs.member_ns + costs.row_ns * static_cast<double>(rows.size()) +
         costs.link_ns_per_kib * static_cast<double>(in_vain) / 1024;
}

/// The rows as they are cut into runs, and what all of it costs.
double PlannedNs(const TransferCosts& costs, const StandingRows& rows) {
  const TransferPlanner planner(costs);
  double ns = 0;
  for (std::size_t first = 0; first < rows.size();) {
    RowRun run = planner.Begin(rows[first].bytes);
    std::size_t next = first + 1;
    while (next < rows.size() &&
           planner.Join(LeftRows::kByCost, rows[next].begin - rows[first].begin, rows[next].bytes,
                        &run)) {
      ++next;
    }
    EXPECT_EQ(run.rows, next - first);
    const auto at = [&rows](std::size_t i) {
      return rows.begin() + static_cast<std::ptrdiff_t>(i);
    };
    const StandingRows cut(at(first), at(next));
    EXPECT_EQ(run.bytes, CopiedBytes(cut));
    EXPECT_EQ(run.wanted, WantedBytes(cut));
    EXPECT_GE(3 * run.wanted, 2 * run.bytes);
    const bool together = planner.GoesTogether(LeftRows::kByCost, run);
    ns += together ? TogetherNs(costs, cut) : EachNs(costs, cut);
    first = next;
  }
  return ns;
}

/// The least that any way to cut them comes to, by trying all.
double BestNs(const TransferCosts& costs, const StandingRows& rows) {
  double best_ns = std::numeric_limits<double>::infinity();
  for (std::uint32_t cuts = 0; cuts < (1U << (rows.size() - 1)); ++cuts) {
    double ns = 0;
    StandingRows cut;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      cut.push_back(rows[r]);
      if (r + 1 < rows.size() && (cuts >> r & 1) == 0) continue;
      const bool may_go = cut.size() > 1 && 3 * WantedBytes(cut) >= 2 * CopiedBytes(cut);
      ns += may_go ? std::min(TogetherNs(costs, cut), EachNs(costs, cut)) : EachNs(costs, cut);
      cut.clear();
    }
    best_ns = std::min(best_ns, ns);
  }
  return best_ns;
}

double RandomCost(RandomBits* random) {
  return static_cast<double>(1 + random->Below(1'000'000)) / 100;
}

TransferCosts RandomCosts(RandomBits* random) {
  return {RandomCost(random), RandomCost(random), RandomCost(random), RandomCost(random),
          RandomCost(random)};
}

/// At most ten rows, one behind the other, with gaps up to a row's `gap_share`.
StandingRows RandomRows(RandomBits* random, std::size_t longest, double gap_share) {
  StandingRows rows;
  std::size_t at = 0;
  const std::size_t count = 1 + random->Below(10);
  while (rows.size() < count) {
    const std::size_t bytes = 1 + random->Below(longest);
    const auto most_gap = static_cast<std::size_t>(gap_share * static_cast<double>(bytes));
    at += rows.empty() ? 0 : random->Below(most_gap + 1);
    rows.push_back({at, bytes});
    at += bytes;
  }
  return rows;
}

TEST(TransferPlannerTest, ByTheDefaultsBoundsAreThoseOfTheDocument) {
  const TransferPlanner planner;
  EXPECT_EQ(planner.RulesFor(TransferPlan::kAuto, 0).least_bytes, 9934U);
  EXPECT_EQ(planner.RulesFor(TransferPlan::kAuto, 0).least_neighbour_bytes, 1229U);
  EXPECT_TRUE(planner.RulesFor(TransferPlan::kAuto, 0).may_map);
  EXPECT_TRUE(planner.RulesFor(TransferPlan::kAuto, 0).only_cold);
  EXPECT_EQ(planner.RulesFor(TransferPlan::kMembers, 0).least_bytes, 4967U);
  EXPECT_EQ(planner.RulesFor(TransferPlan::kMembers, 0).least_neighbour_bytes, 4967U);
  EXPECT_EQ(planner.RulesFor(TransferPlan::kSlabs, 0).least_bytes, 1229U);
  EXPECT_FALSE(planner.RulesFor(TransferPlan::kSlabs, 0).only_cold);
  EXPECT_FALSE(planner.RulesFor(TransferPlan::kBatch, 0).any());
  EXPECT_EQ(planner.each_bytes(), 40'190U);
  EXPECT_EQ(planner.most_gap_bytes(), 23'398U);
}

TEST(TransferPlannerTest, ALengthThatIsAskedForIsTaken) {
  for (const TransferPlan plan :
       {TransferPlan::kAuto, TransferPlan::kMembers, TransferPlan::kSlabs, TransferPlan::kDirect}) {
    const LeftFieldRules rules = TransferPlanner().RulesFor(plan, 7);
    EXPECT_EQ(rules.least_bytes, 7U);
    EXPECT_EQ(rules.least_neighbour_bytes, 7U);
    EXPECT_EQ(rules.may_map, plan == TransferPlan::kAuto);
    EXPECT_FALSE(rules.only_cold);
  }
  EXPECT_FALSE(TransferPlanner().RulesFor(TransferPlan::kBatch, 7).any());
}

TEST(TransferPlannerTest, TheReasonSaysWhoseCostsTheyAre) {
  const auto reason = [](const TransferCosts& costs, TransferPlan plan, std::size_t asked) {
    return TransferPlanner(costs).Reason(plan, asked);
  };
  EXPECT_EQ(reason({}, TransferPlan::kAuto, 0),
            "fields of cold files were left from 9934 bytes on, of neighbours from 1229 bytes on, "
            "by costs of an H200 (defaults)");
  EXPECT_EQ(reason({.copy_ns_per_kib = 485}, TransferPlan::kMembers, 0),
            "fields were left from 1024 bytes on, by the costs given");
  EXPECT_EQ(reason({}, TransferPlan::kSlabs, 9), "fields were left from 9 bytes on, as asked for");
  EXPECT_EQ(reason({}, TransferPlan::kAuto, 9),
            "fields were left from 9 bytes on, as asked for, and joined, by costs of an H200 "
            "(defaults)");
}

TEST(TransferPlannerTest, ADearerCopyByTheCpuNeverLeavesFewerRows) {
  RandomBits random(1);
  for (int i = 0; i < 2000; ++i) {
    TransferCosts costs = RandomCosts(&random);
    const TransferPlanner cheap(costs);
    costs.copy_ns_per_kib += RandomCost(&random);
    const TransferPlanner dear(costs);
    for (const TransferPlan plan :
         {TransferPlan::kAuto, TransferPlan::kMembers, TransferPlan::kSlabs}) {
      EXPECT_LE(dear.RulesFor(plan, 0).least_bytes, cheap.RulesFor(plan, 0).least_bytes);
      EXPECT_LE(dear.RulesFor(plan, 0).least_neighbour_bytes,
                cheap.RulesFor(plan, 0).least_neighbour_bytes);
      EXPECT_LE(cheap.RulesFor(plan, 0).least_neighbour_bytes, cheap.RulesFor(plan, 0).least_bytes);
    }
  }
}

TEST(TransferPlannerTest, ADearerChecksumLeavesFewerRowsAndCutsThemAlike) {
  RandomBits random(6);
  for (int i = 0; i < 2000; ++i) {
    TransferCosts costs = RandomCosts(&random);
    const TransferPlanner cheap(costs);
    costs.sum_ns += RandomCost(&random);
    const TransferPlanner dear(costs);
    for (const TransferPlan plan :
         {TransferPlan::kAuto, TransferPlan::kMembers, TransferPlan::kSlabs}) {
      EXPECT_GE(dear.RulesFor(plan, 0).least_bytes, cheap.RulesFor(plan, 0).least_bytes);
      EXPECT_GE(dear.RulesFor(plan, 0).least_neighbour_bytes,
                cheap.RulesFor(plan, 0).least_neighbour_bytes);
    }
    const std::size_t bytes = 1 + random.Below(kLongest);
    EXPECT_EQ(dear.IsCopiedByCpu(bytes), cheap.IsCopiedByCpu(bytes));
    EXPECT_EQ(dear.most_gap_bytes(), cheap.most_gap_bytes());
  }
}

TEST(TransferPlannerTest, ADearerMemberNeverMakesMoreRowsGoByThemselves) {
  RandomBits random(2);
  for (int i = 0; i < 2000; ++i) {
    TransferCosts costs = RandomCosts(&random);
    const TransferPlanner cheap(costs);
    costs.member_ns += RandomCost(&random);
    const TransferPlanner dear(costs);
    EXPECT_GE(dear.each_bytes(), cheap.each_bytes());
    EXPECT_GE(dear.most_gap_bytes(), cheap.most_gap_bytes());
    EXPECT_GE(dear.RulesFor(TransferPlan::kAuto, 0).least_bytes,
              cheap.RulesFor(TransferPlan::kAuto, 0).least_bytes);
    const std::size_t bytes = 1 + random.Below(kLongest);
    EXPECT_TRUE(dear.IsCopiedByCpu(bytes) || !cheap.IsCopiedByCpu(bytes));
  }
}

TEST(TransferPlannerTest, WhatItCutsIsNeverDearerThanEachRowByItself) {
  RandomBits random(3);
  for (int i = 0; i < 2000; ++i) {
    const TransferCosts costs = i % 2 == 0 ? TransferCosts() : RandomCosts(&random);
    const StandingRows rows = RandomRows(&random, kLongest, 1.0);
    const double ns = PlannedNs(costs, rows);
    EXPECT_LE(ns, EachNs(costs, rows) * (1 + 1e-9));
    EXPECT_GE(ns, BestNs(costs, rows) * (1 - 1e-9));
  }
}

// Rows that are long enough go by themselves for the device's memory, not for the time; and where
// gaps are most of what is copied all together is no plan.
TEST(TransferPlannerTest, OfRowsThatMayJoinItIsNeverDearerThanAllTogether) {
  RandomBits random(4);
  for (int i = 0; i < 2000; ++i) {
    const TransferCosts costs = i % 2 == 0 ? TransferCosts() : RandomCosts(&random);
    const std::size_t longest = std::min(kLongest, TransferPlanner(costs).each_bytes() - 1);
    const StandingRows rows = RandomRows(&random, longest, 0.5);
    if (rows.size() < 2) continue;
    EXPECT_LE(PlannedNs(costs, rows), TogetherNs(costs, rows) * (1 + 1e-9));
  }
}

TEST(TransferPlannerTest, ByTheDefaultsItIsCloseToTheBestOfAllWays) {
  RandomBits random(5);
  const std::size_t each_bytes = TransferPlanner().each_bytes();
  double worst = 1;
  double all_ns = 0;
  double all_best_ns = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::size_t longest = std::min<std::size_t>(each_bytes - 1, 1 + random.Below(each_bytes));
    const StandingRows rows = RandomRows(&random, longest, 1.0);
    const double ns = PlannedNs({}, rows);
    const double best_ns = BestNs({}, rows);
    all_ns += ns;
    all_best_ns += best_ns;
    worst = std::max(worst, ns / best_ns);
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_LE(all_ns, 1.05 * all_best_ns);
}

TEST(TransferPlannerTest, PlansThatAreForcedAskNoCosts) {
  const TransferPlanner dear(TransferCosts{.link_ns_per_kib = 1e6, .row_ns = 1e6});
  RowRun run = dear.Begin(30'000);
  EXPECT_FALSE(dear.Join(LeftRows::kEach, 30'000, 30'000, &run));
  EXPECT_FALSE(dear.Join(LeftRows::kByCost, 40'000, 30'000, &run));
  EXPECT_TRUE(dear.Join(LeftRows::kTogether, 40'000, 30'000, &run));
  EXPECT_TRUE(dear.GoesTogether(LeftRows::kTogether, run));
  EXPECT_FALSE(dear.GoesTogether(LeftRows::kByCost, run));
  EXPECT_FALSE(dear.Join(LeftRows::kTogether, 110'000, 30'000, &run)) << "90 of 140 are wanted";
  EXPECT_FALSE(dear.GoesTogether(LeftRows::kTogether, dear.Begin(30'000))) << "one row is no run";
}

TEST(TransferPlannerTest, AGapThatIsDearerThanAnotherRunEndsOne) {
  const TransferPlanner planner;
  const std::size_t gap = planner.most_gap_bytes();
  RowRun run = planner.Begin(39'000);
  EXPECT_TRUE(planner.Join(LeftRows::kByCost, 39'000, 39'000, &run));
  EXPECT_FALSE(planner.Join(LeftRows::kByCost, 78'000 + gap + 1, 2000, &run));
  EXPECT_EQ(run.rows, 2U);
  EXPECT_TRUE(planner.Join(LeftRows::kByCost, 78'000 + gap, 2000, &run));
}

TEST(TransferPlannerTest, LongRowsGoByThemselvesThoughTheyHaveNeighbours) {
  const TransferPlanner planner;
  RowRun run = planner.Begin(1000);
  EXPECT_FALSE(planner.Join(LeftRows::kByCost, 1000, planner.each_bytes(), &run));
  EXPECT_TRUE(planner.Join(LeftRows::kByCost, 1000, planner.each_bytes() - 1, &run));
  RowRun begun_long = planner.Begin(planner.each_bytes());
  EXPECT_FALSE(planner.Join(LeftRows::kByCost, planner.each_bytes(), 1000, &begun_long));
}

TEST(TransferPlannerTest, RowsWithinOthersAddNoGap) {
  const TransferPlanner planner;
  RowRun run = planner.Begin(3000);
  EXPECT_TRUE(planner.Join(LeftRows::kByCost, 0, 2000, &run));
  EXPECT_TRUE(planner.Join(LeftRows::kByCost, 1000, 2500, &run));
  EXPECT_EQ(run.bytes, 3500U);
  EXPECT_EQ(run.wanted, 3500U);
}

}  // namespace
}  // namespace ringfeed
