#include "readers/order/share_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "readers/order/packing.h"
#include "readers/order/rank_shares.h"
#include "readers/order/share_chunks.h"
#include "tests/support/planned_order.h"

namespace ringfeed {
namespace {

using Random = std::mt19937_64;
using Kind = ShareRules::Kind;
using Rest = ShareRules::Rest;

std::string TextOf(const PlannedShare& share) {
  std::string text = "[";
  if (share.segment != nullptr) {
    for (const std::uint32_t place : share.segment->PlacesOf(share.number)) {
      text += (text.size() > 1 ? " " : "") + std::to_string(share.segment->RowAt(place));
    }
  }
  return text + (share.repeated ? "]*" : "]");
}

std::string TextOf(const PlannedStep& step) {
  std::string text;
  for (const PlannedShare& share : step.shares) text += (text.empty() ? "" : " ") + TextOf(share);
  return text;
}

// ---- Known answers ----

constexpr std::array<std::uint32_t, 12> kUnits{3, 8, 1, 5, 2, 7, 4, 6, 2, 3, 9, 1};

/// The steps of all passes over twelve records of kUnits.
std::string PlanOf(const ShareRules& rules, const TestOrder::Options& order, std::uint64_t passes) {
  SharePlan plan(rules, {passes}, std::make_unique<TestOrder>(order),
                 std::make_shared<TestLengths>(std::vector(kUnits.begin(), kUnits.end())));
  plan.Seek({}, 0);
  std::string text;
  PlannedStep step;
  bool ended = false;
  while (plan.Next(&step, &ended).ok() && !ended) {
    text += (text.empty() ? "" : " | ") + TextOf(step);
  }
  return text;
}

struct KnownPlan {
  const char* name;
  ShareRules rules;
  bool global;
  std::uint64_t joined;
  std::uint64_t passes;
  const char* steps;
};

ShareRules Packed(std::uint64_t step, bool best_fit, std::uint32_t most_records = 0) {
  return {.kind = Kind::kPacked,
          .step = step,
          .segment = 6,
          .seed = 7,
          .best_fit = best_fit,
          .length = 10,
          .most_records = most_records};
}

ShareRules PackedWithRest(Rest rest) {
  ShareRules rules = Packed(4, false);
  rules.rest = rest;
  return rules;
}

// Of the formulas in docs/ORDER.md, computed by another program.
const KnownPlan kKnownPlans[] = {
    {"FirstFitInTheFilesOrder", Packed(2, false), false, 1, 1,
     "[0 2 3] [1 4] | [5] [6 7] | [8 9 11] [10]"},
    {"FirstFitInTheGlobalOrder", Packed(2, false), true, 1, 2,
     "[2 8 4 6] [1] | [10] [3 9 11] | [5 0] [7] | [8 9 6] [1] | [5] [7] | [0 2 3 11] [10] | [4]"},
    {"BestFitInTheFilesOrder", Packed(2, true), false, 1, 2,
     "[1 4] [2 3] | [0 5] [6 7] | [10 11] [8 9] | [1 4] [0 5] | [2 3] [10 11] | [8 9] [6 7]"},
    {"BestFitOfTwoRecordsARow", Packed(2, true, 2), false, 1, 1,
     "[1 4] [2 3] | [0 5] [6 7] | [10 11] [8 9]"},
    {"BestFitOfJoinedPasses", Packed(2, true), true, 2, 3,
     "[2 10] [4 6] | [8 1] [0 7 11] | [5 9] [3] | [9 5] [6 7] | [8 1] [10 2] | [0 3 4] [11] | "
     "[1 4] [11 5 2] | [3] [10] | [8 9 0] [6 7] | [5 0] [11 10] | [1 4] [2] | [3 8 9] [6 7] | "
     "[10 11] [3 0] | [6 7] [4 1] | [2 8] [5 9] | [8 1] [11 6 9 4] | [3] [2 10] | [0 5] [7]"},
    {"Buckets",
     {.kind = Kind::kBuckets, .step = 4, .segment = 8, .seed = 7, .bounds = {2, 5}},
     false,
     1,
     1,
     "[2] [4] [0] [3] | [6] [1] [5] [7] | [8] [11] [9] [10]"},
    {"Tokens",
     {.kind = Kind::kTokens, .step = 2, .segment = 12, .seed = 7, .tokens = 10},
     false,
     1,
     1,
     "[0] [1 2] | [3 4] [5] | [6 7] [8 9] | [10 11]"},
    {"TokensPaddedToTheLongest",
     {.kind = Kind::kTokens,
      .step = 2,
      .segment = 12,
      .seed = 7,
      .best_fit = true,
      .tokens = 12,
      .padded = true},
     false,
     1,
     1,
     "[10] [7 3] | [4 8 2 11] [5] | [6 0 9] [1]"},
    {"RowsOfAlikeSteps",
     {.kind = Kind::kRows, .step = 2, .segment = 2, .seed = 7, .cost = {0, 1}, .alike = 3},
     false,
     1,
     1,
     "[1] [5] | [4] [2] | [3] [0] | [8] [11] | [10] [7] | [6] [9]"},
    {"AShortRest", PackedWithRest(Rest::kShort), false, 1, 2,
     "[0 2 3] [1 4] [5] [6 7] | [8 9 11] [10] | [0 2 3] [1 4] [5] [6 7] | [8 9 11] [10]"},
    {"ARestThatIsDropped", PackedWithRest(Rest::kDrop), false, 1, 2,
     "[0 2 3] [1 4] [5] [6 7] | [0 2 3] [1 4] [5] [6 7]"},
    {"ARestThatIsPadded", PackedWithRest(Rest::kPad), false, 1, 1,
     "[0 2 3] [1 4] [5] [6 7] | [8 9 11] [10] [] []"},
    {"ARestThatRepeats", PackedWithRest(Rest::kRepeat), false, 1, 1,
     "[0 2 3] [1 4] [5] [6 7] | [8 9 11] [10] [0 2 3]* [1 4]*"},
};

class KnownPlanTest : public testing::TestWithParam<KnownPlan> {};

TEST_P(KnownPlanTest, HasTheStepsOfTheFormula) {
  const KnownPlan& known = GetParam();
  EXPECT_EQ(PlanOf(known.rules, {12, known.global, known.joined}, known.passes), known.steps);
}

INSTANTIATE_TEST_SUITE_P(Plans, KnownPlanTest, testing::ValuesIn(kKnownPlans),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SharePlanTest, MarksCountTheSharesOfASegment) {
  SharePlan plan(Packed(2, false), {1}, std::make_unique<TestOrder>(TestOrder::Options{12}),
                 std::make_shared<TestLengths>(std::vector(kUnits.begin(), kUnits.end())));
  plan.Seek({}, 0);
  PlannedStep step;
  bool ended = false;
  ASSERT_TRUE(plan.Next(&step, &ended).ok());
  EXPECT_EQ(step.end, (PlanPosition{0, 0, 2}));
  ASSERT_TRUE(plan.Next(&step, &ended).ok());
  EXPECT_EQ(step.end, (PlanPosition{0, 6, 1}));
  ASSERT_TRUE(plan.Next(&step, &ended).ok());
  EXPECT_EQ(step.end, (PlanPosition{1, 0, 0}));
  ASSERT_TRUE(plan.Next(&step, &ended).ok());
  EXPECT_TRUE(ended);
}

// ---- Random plans ----

std::vector<std::uint32_t> RandomUnits(Random& random, std::size_t count) {
  const std::uint64_t kind = random() % 5;
  std::vector<std::uint32_t> units(count);
  for (std::uint32_t& each : units) {
    const auto drawn = static_cast<std::uint32_t>(random());
    switch (kind) {
      case 0:
        each = 1 + drawn % 20;
        break;
      case 1:
        each = 64;
        break;
      case 2:
        each = drawn % 3 == 0 ? drawn % 40 : 0;
        break;
      case 3:
        each = 4 + 400000 / (1 + drawn % 100000);
        break;
      default:
        each = drawn % 10 == 0 ? LengthTable::kHole : drawn % 50;
        break;
    }
  }
  return units;
}

ShareRules RandomRules(Random& random) {
  const auto one_of = [&](std::initializer_list<std::uint64_t> choices) {
    return std::data(choices)[random() % choices.size()];
  };
  ShareRules rules;
  rules.kind = static_cast<Kind>(random() % 4);
  rules.step = one_of({1, 2, 5, 8, 12});
  rules.segment =
      rules.kind == Kind::kBuckets ? rules.step * one_of({1, 4, 32}) : one_of({1, 7, 40, 64, 1000});
  rules.seed = one_of({0, 7, (std::uint64_t{1} << 40) + 3});
  rules.first_epoch = static_cast<std::uint32_t>(one_of({0, 0, 3}));
  rules.rest = static_cast<Rest>(random() % 4);
  rules.cost = {one_of({0, 1, 24576}), one_of({0, 1})};
  rules.alike = one_of({1, 1, 3, 8});
  const bool combines = rules.kind == Kind::kPacked || rules.kind == Kind::kTokens;
  rules.best_fit = combines && random() % 2 == 0;
  rules.multiple = static_cast<std::uint32_t>(one_of({1, 1, 16}));
  rules.length = static_cast<std::uint32_t>(one_of({16, 64, 512, 4096}));
  rules.most_records = rules.best_fit ? static_cast<std::uint32_t>(one_of({0, 0, 4})) : 0;
  rules.tokens = one_of({64, 512, 4096});
  rules.most_rows = one_of({0, 1, 10});
  rules.padded = rules.best_fit && random() % 2 == 0;
  rules.bounds = {3, 10, 40};
  return rules;
}

struct RandomPlan {
  explicit RandomPlan(std::uint64_t seed) {
    Random random(seed);
    order.rows = 1 + random() % 300;
    order.global = random() % 2 == 0;
    order.joined = random() % 4 == 0 ? 3 : 1;
    units = RandomUnits(random, order.rows);
    rules = RandomRules(random);
    passes = 1 + random() % 3;
  }
  SharePlan Make(const SharePlan::OnSegment& on_segment = {}) const {
    return {rules,
            {passes},
            std::make_unique<TestOrder>(order),
            std::make_shared<TestLengths>(units),
            on_segment};
  }
  /// All steps from there on.
  std::vector<PlannedStep> StepsFrom(const PlanPosition& at, std::uint64_t number,
                                     const SharePlan::OnSegment& on_segment = {}) const {
    SharePlan plan = Make(on_segment);
    plan.Seek(at, number);
    std::vector<PlannedStep> steps;
    for (;;) {
      PlannedStep step;
      bool ended = false;
      EXPECT_TRUE(plan.Next(&step, &ended).ok());
      if (ended) return steps;
      steps.push_back(std::move(step));
    }
  }
  bool combines() const { return rules.kind == Kind::kPacked || rules.kind == Kind::kTokens; }

  TestOrder::Options order;
  std::vector<std::uint32_t> units;
  ShareRules rules;
  std::uint64_t passes = 1;
};

constexpr std::uint64_t kRandomPlans = 60;

void CheckEachRecordComesOnceInAPassAndStepsAreWhole(const RandomPlan& random) {
  const std::vector<PlannedStep> steps = random.StepsFrom({}, 0);
  std::map<std::uint64_t, std::map<RowNumber, std::uint64_t>> came;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const PlannedStep& step = steps[i];
    const bool is_last = i + 1 == steps.size() || steps[i + 1].pass != step.pass;
    ASSERT_FALSE(step.shares.empty());
    if (random.rules.rest != Rest::kShort || !is_last) {
      ASSERT_EQ(step.shares.size(), random.rules.step);
    }
    for (const PlannedShare& share : step.shares) {
      if (share.segment == nullptr || share.repeated) continue;
      for (const std::uint32_t place : share.segment->PlacesOf(share.number)) {
        ++came[step.pass][share.segment->RowAt(place)];
      }
    }
  }
  for (std::uint64_t pass = 0; pass < random.passes; ++pass) {
    std::uint64_t missing = 0;
    for (RowNumber row = 0; row < random.order.rows; ++row) {
      const std::uint32_t units = random.units[row];
      const bool takes_part = !random.combines() || (units != 0 && units != LengthTable::kHole);
      const std::uint64_t wanted = takes_part ? random.order.joined : 0;
      ASSERT_LE(came[pass][row], wanted) << row;
      missing += wanted - came[pass][row];
    }
    ASSERT_TRUE(missing == 0 || random.rules.rest == Rest::kDrop) << missing;
  }
}

void CheckSharesKeepTheirLimits(const RandomPlan& random) {
  const ShareRules& rules = random.rules;
  for (const PlannedStep& step : random.StepsFrom({}, 0)) {
    for (const PlannedShare& share : step.shares) {
      if (share.segment == nullptr) continue;
      const std::span<const std::uint32_t> places = share.segment->PlacesOf(share.number);
      std::uint64_t sum = 0;
      std::uint64_t longest = 0;
      std::uint64_t cost = 0;
      for (const std::uint32_t place : places) {
        const std::uint64_t units = share.segment->UnitsAt(place);
        sum += units;
        longest = std::max(longest, units);
        cost += rules.cost.Of(units);
      }
      ASSERT_EQ(share.segment->CostOf(share.number), cost);
      ASSERT_FALSE(places.empty());
      if (!random.combines()) {
        ASSERT_EQ(places.size(), 1u);
      } else if (rules.kind == Kind::kPacked) {
        ASSERT_LE(sum, rules.length);
        ASSERT_TRUE(std::is_sorted(places.begin(), places.end()));
        ASSERT_TRUE(rules.most_records == 0 || places.size() <= rules.most_records);
      } else if (places.size() > 1) {
        ASSERT_LE(rules.padded ? longest * places.size() : sum, rules.tokens);
        ASSERT_TRUE(rules.most_rows == 0 || places.size() <= rules.most_rows);
      }
    }
  }
}

void CheckEachPositionGoesOnWithTheStepsThatFollow(const RandomPlan& random) {
  const std::vector<PlannedStep> steps = random.StepsFrom({}, 0);
  for (std::size_t i = 0; i < steps.size(); i += 1 + i / 3) {
    const std::vector<PlannedStep> rest = random.StepsFrom(steps[i].end, i + 1);
    ASSERT_EQ(rest.size(), steps.size() - i - 1) << "from step " << i;
    for (std::size_t j = 0; j < rest.size(); ++j) {
      ASSERT_EQ(TextOf(rest[j]), TextOf(steps[i + 1 + j])) << "step " << i + 1 + j;
      ASSERT_EQ(rest[j].end, steps[i + 1 + j].end);
      ASSERT_EQ(rest[j].pass, steps[i + 1 + j].pass);
    }
  }
}

/// Where segments begin, and the step of the first share of each.
using SegmentSteps = std::map<OrderPlace, std::uint64_t>;

SegmentSteps SegmentsFrom(const RandomPlan& random, const PlanPosition& at, std::uint64_t number) {
  SegmentSteps found;
  (void)random.StepsFrom(at, number, [&](const OrderPlace& place, std::uint64_t step) {
    EXPECT_TRUE(found.emplace(place, step).second) << "a segment begins once";
    return step % 2 == 0;  // the order did not change: it comes again as it was
  });
  return found;
}

void CheckSegmentsKnowTheStepOfTheirFirstShare(const RandomPlan& random) {
  const std::vector<PlannedStep> steps = random.StepsFrom({}, 0);
  std::map<std::uint64_t, std::uint64_t> first_step;  // of each pass
  for (std::size_t i = 0; i < steps.size(); ++i) first_step.try_emplace(steps[i].pass, i);
  RandomPlan alone = random;
  alone.rules.step = alone.rules.alike = 1;
  if (random.rules.kind == Kind::kBuckets) return;  // whose rows depend on the step
  SegmentSteps wanted;
  std::uint64_t shares = 0;  // of the pass
  PlanPosition at;
  for (const PlannedStep& share : alone.StepsFrom({}, 0)) {
    if (share.pass != at.pass) at = {share.pass};
    if (at.place == 0 && at.outputs == 0) shares = 0;
    const bool has_step = first_step.contains(share.pass);
    if (at.outputs == 0 && has_step) {
      wanted[{at.pass, at.place}] = first_step[share.pass] + shares / random.rules.step;
    }
    ++shares;
    at = share.end;
  }
  const SegmentSteps found = SegmentsFrom(random, {}, 0);
  for (const auto& [place, step] : wanted) ASSERT_EQ(found.at(place), step) << place.place;
  for (std::size_t i = 0; i < steps.size(); i += 1 + i / 3) {
    for (const auto& [place, step] : SegmentsFrom(random, steps[i].end, i + 1)) {
      ASSERT_EQ(found.at(place), step) << "from step " << i;
    }
  }
}

TEST(RandomPlanTest, SegmentsKnowTheStepOfTheirFirstShare) {
  for (std::uint64_t seed = 4000; seed < 4000 + kRandomPlans; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(CheckSegmentsKnowTheStepOfTheirFirstShare(RandomPlan(seed)));
  }
}

TEST(RandomPlanTest, EachRecordComesOnceInAPassAndStepsAreWhole) {
  for (std::uint64_t seed = 0; seed < kRandomPlans; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(CheckEachRecordComesOnceInAPassAndStepsAreWhole(RandomPlan(seed)));
  }
}

TEST(RandomPlanTest, SharesKeepTheirLimits) {
  for (std::uint64_t seed = 0; seed < kRandomPlans; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(CheckSharesKeepTheirLimits(RandomPlan(seed)));
  }
}

TEST(RandomPlanTest, EachPositionGoesOnWithTheStepsThatFollow) {
  for (std::uint64_t seed = 0; seed < kRandomPlans; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_NO_FATAL_FAILURE(CheckEachPositionGoesOnWithTheStepsThatFollow(RandomPlan(seed)));
  }
}

TEST(RandomPlanTest, HasTheStepsOfTheSlowReference) {
  for (std::uint64_t seed = 0; seed < 3 * kRandomPlans; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPlan random(seed);
    const SlowSteps slow(random.rules, [&](std::int64_t row) {
      return random.units[static_cast<std::size_t>(row)];
    });
    TestOrder order(random.order);
    std::vector<std::string> wanted;
    for (std::uint64_t pass = 0; pass < random.passes; ++pass) {
      std::vector<RowNumber> rows(order.Places(pass));
      std::size_t count = 0;
      ASSERT_TRUE(order.Seek(pass, 0).ok() && order.Next(rows, &count).ok());
      for (const SlowStep& step : slow.Of(pass, wanted.size(), {rows.begin(), rows.end()})) {
        std::string& text = wanted.emplace_back();
        for (const SlowShare& share : step) {
          text += text.empty() ? "[" : " [";
          for (const std::int64_t row : share.records) {
            text += (text.back() == '[' ? "" : " ") + std::to_string(row);
          }
          text += "]";
        }
      }
    }
    std::vector<std::string> came;
    for (const PlannedStep& step : random.StepsFrom({}, 0)) {
      came.push_back(TextOf(step));
      std::erase(came.back(), '*');
    }
    ASSERT_EQ(came, wanted);
  }
}

// ---- What goes wrong ----

TEST(SharePlanTest, FailsWithItsOrderAndItsLengths) {
  for (const bool order : {true, false}) {
    auto cursor = std::make_unique<TestOrder>(TestOrder::Options{12});
    auto lengths = std::make_shared<TestLengths>(std::vector(kUnits.begin(), kUnits.end()));
    if (order) {
      cursor->fails_at = 8;
    } else {
      lengths->fails_at = 8;
    }
    SharePlan plan(Packed(2, true), {1}, std::move(cursor), lengths);
    plan.Seek({}, 0);
    PlannedStep step;
    bool ended = false;
    ASSERT_TRUE(plan.Next(&step, &ended).ok());
    EXPECT_EQ(plan.Next(&step, &ended).code(), StatusCode::kDamaged);
    EXPECT_EQ(plan.Next(&step, &ended).code(), StatusCode::kDamaged) << "and it stays so";
  }
}

TEST(SharePlanTest, PassesWithoutEndAndWithoutAStepFail) {
  for (const bool other_files : {false, true}) {
    ShareRules rules = Packed(4, false);
    rules.rest = Rest::kDrop;
    rules.step = 100;
    SharePlan plan(rules, {0, other_files}, std::make_unique<TestOrder>(TestOrder::Options{12}),
                   std::make_shared<TestLengths>(std::vector(kUnits.begin(), kUnits.end())));
    plan.Seek({}, 0);
    PlannedStep step;
    bool ended = false;
    EXPECT_EQ(plan.Next(&step, &ended).code(), StatusCode::kInvalidArgument);
  }
}

TEST(SharePlanTest, APassWithoutPlacesIsPassedOver) {
  auto cursor = std::make_unique<TestOrder>(TestOrder::Options{12});
  cursor->empty_pass = 1;
  SharePlan plan(Packed(6, false), {3}, std::move(cursor),
                 std::make_shared<TestLengths>(std::vector(kUnits.begin(), kUnits.end())));
  plan.Seek({}, 0);
  std::vector<std::uint64_t> passes;
  PlannedStep step;
  bool ended = false;
  while (plan.Next(&step, &ended).ok() && !ended) passes.push_back(step.pass);
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 2}));
}

// ---- Packing ----

TEST(NumberSetTest, FindsTheLeastNumberThatIsNotLess) {
  for (const std::uint32_t most : {0u, 1u, 63u, 64u, 4095u, 4096u, 5000u, 300000u}) {
    Random random(most);
    NumberSet set(most);
    std::set<std::uint32_t> has;
    for (int i = 0; i < 3000; ++i) {
      const auto number = static_cast<std::uint32_t>(random() % (most + 1));
      if (random() % 3 == 0) {
        set.Add(number);
        has.insert(number);
      } else {
        set.Remove(number);
        has.erase(number);
      }
      const auto from = static_cast<std::uint32_t>(random() % (most + 1));
      const auto found = has.lower_bound(from);
      ASSERT_EQ(set.AtLeast(from), found == has.end() ? NumberSet::kNone : *found);
    }
  }
}

/// The formula word by word.
std::vector<std::size_t> SlowBestFit(const std::vector<std::uint32_t>& units, std::uint32_t length,
                                     std::uint32_t most_records) {
  struct Row {
    std::uint32_t room = 0;
    std::uint32_t records = 0;
    std::size_t came = 0;
  };
  std::vector<Row> rows;
  std::vector<std::size_t> row_of;
  for (const std::uint32_t each : units) {
    std::size_t best = rows.size();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].room < each) continue;
      if (most_records > 0 && rows[row].records == most_records) continue;
      const bool better = best == rows.size() || rows[row].room < rows[best].room ||
                          (rows[row].room == rows[best].room && rows[row].came > rows[best].came);
      if (better) best = row;
    }
    if (best == rows.size()) rows.push_back({.room = length});
    rows[best].room -= each;
    ++rows[best].records;
    rows[best].came = row_of.size();
    row_of.push_back(best);
  }
  return row_of;
}

TEST(BestFitTest, TakesTheRowWithTheLeastRoomThatIsEnough) {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const auto length = std::array<std::uint32_t, 7>{1, 2, 30, 63, 64, 500, 5000}[random() % 7];
    const auto most_records = std::array<std::uint32_t, 4>{0, 0, 1, 3}[random() % 4];
    std::vector<std::uint32_t> units(random() % 120);
    for (std::uint32_t& each : units) {
      each = 1 +
             static_cast<std::uint32_t>(random() % (random() % 5 == 0 ? length : (length + 2) / 3));
    }
    std::sort(units.rbegin(), units.rend());
    BestFit fit(length, most_records);
    for (int again = 0; again < 2; ++again) {  // Clear leaves nothing
      std::vector<std::size_t> row_of;
      for (const std::uint32_t each : units) row_of.push_back(fit.Place(each));
      ASSERT_EQ(row_of, SlowBestFit(units, length, most_records));
      fit.Clear();
    }
  }
}

TEST(ByFallingUnitsTest, SortsAndKeepsTheOrderOfEqualOnes) {
  Random random(4);
  for (const std::uint32_t most : {1u, 2u, 8191u, 8192u, 8193u, 1u << 20, LengthTable::kHole - 1}) {
    std::vector<std::uint32_t> units(2000);
    for (std::uint32_t& each : units) each = 1 + static_cast<std::uint32_t>(random() % most);
    std::vector<std::uint32_t> items;
    for (std::uint32_t i = 0; i < units.size(); i += 1 + i % 3) items.push_back(i);
    std::vector<std::uint32_t> wanted = items;
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return units[a] > units[b]; });
    ByFallingUnits().Sort(units, most, &items);
    EXPECT_EQ(items, wanted) << most;
  }
}

// ---- Ranks ----

using Parts = std::vector<std::vector<std::uint32_t>>;

TEST(SplitSharesTest, GivesTheKnownParts) {
  const std::vector<std::uint64_t> costs{9, 1, 8, 2, 7, 3, 6, 4};
  EXPECT_EQ(SplitShares(costs, {2, true}), (Parts{{0, 6, 7, 1}, {2, 4, 5, 3}}));
  EXPECT_EQ(SplitShares(costs, {4, true}), (Parts{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(SplitShares(std::span(costs).first(7), {3, true}), (Parts{{0, 3, 1}, {2, 5}, {4, 6}}));
  EXPECT_EQ(SplitShares(std::vector<std::uint64_t>(6, 5), {3, true}),
            (Parts{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(SplitShares(costs, {2, true, {3, 1}}), (Parts{{0, 2, 6, 7, 5, 1}, {4, 3}}));
  EXPECT_EQ(SplitShares(costs, {3, false}), (Parts{{0, 1}, {2, 3, 4}, {5, 6, 7}}));
}

TEST(SplitSharesTest, LoadsAndCountsAreEven) {
  Random random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const std::uint64_t ranks = 1 + random() % 40;
    std::vector<std::uint64_t> costs(ranks * (1 + random() % 6) - random() % ranks);
    for (std::uint64_t& cost : costs) cost = random() % 1000;
    const Parts parts = SplitShares(costs, {ranks, true});
    std::vector<std::uint64_t> loads(ranks);
    std::set<std::uint32_t> given;
    std::size_t least = costs.size();
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const std::uint32_t share : parts[rank]) loads[rank] += costs[share];
      given.insert(parts[rank].begin(), parts[rank].end());
      least = std::min(least, parts[rank].size());
      most = std::max(most, parts[rank].size());
    }
    ASSERT_EQ(given.size(), costs.size());
    ASSERT_LE(most - least, 1u);
    if (costs.size() % ranks != 0) continue;
    const auto [lightest, heaviest] = std::minmax_element(loads.begin(), loads.end());
    ASSERT_LE(*heaviest - *lightest, *std::max_element(costs.begin(), costs.end()));
  }
}

TEST(SplitSharesTest, WeightsSayHowManySharesARankGets) {
  Random random(6);
  for (int trial = 0; trial < 300; ++trial) {
    RankSplit split{1 + random() % 9, trial % 2 == 0, {}};
    std::uint64_t total = 0;
    for (std::uint64_t rank = 0; rank < split.ranks; ++rank) {
      split.weights.push_back(1 + static_cast<std::uint32_t>(random() % 5));
      total += split.weights.back();
    }
    std::vector<std::uint64_t> costs(random() % 60);
    for (std::uint64_t& cost : costs) cost = random() >> 8;
    const Parts parts = SplitShares(costs, split);
    std::size_t given = 0;
    for (std::uint64_t rank = 0; rank < split.ranks; ++rank) {
      given += parts[rank].size();
      const std::uint64_t exact = costs.size() * split.weights[rank] / total;
      ASSERT_GE(parts[rank].size(), exact);
      ASSERT_LE(parts[rank].size(), exact + 1);
    }
    ASSERT_EQ(given, costs.size());
  }
}

TEST(SplitSharesTest, GivesThePartsOfTheSlowReference) {
  Random random(7);
  for (int trial = 0; trial < 600; ++trial) {
    RankSplit split{1 + random() % 9, trial % 2 == 0, {}};
    for (std::uint64_t rank = 0; trial % 3 == 0 && rank < split.ranks; ++rank) {
      split.weights.push_back(1 + static_cast<std::uint32_t>(random() % 5));
    }
    SlowStep step(random() % 60);
    std::vector<std::uint64_t> costs;
    for (SlowShare& share : step) costs.push_back(share.cost = random() % 50);
    const std::vector<std::vector<std::size_t>> wanted = SlowSplit(step, split);
    Parts parts;
    for (const auto& part : wanted) parts.emplace_back(part.begin(), part.end());
    ASSERT_EQ(SplitShares(costs, split), parts);
  }
}

// ---- Chunks ----

/// What a rank gets of a step: the text of each of its shares.
using RankStep = std::vector<std::string>;

struct RankSteps {
  std::map<std::uint64_t, std::vector<RankStep>> of_pass;
  std::vector<PlanPosition> ends;
  std::vector<std::uint64_t> units;
  std::vector<std::uint64_t> pass_rows;
};

RankSteps TakeChunks(const RandomPlan& random, const ShareChunks::Options& options) {
  ShareChunks chunks(std::make_unique<SharePlan>(random.rules, SharePlan::Passes{random.passes},
                                                 std::make_unique<TestOrder>(random.order),
                                                 std::make_shared<TestLengths>(random.units)),
                     options);
  RankSteps steps;
  RankStep step;
  std::string share = "[";
  std::uint64_t rows = 0;
  for (;;) {
    Chunk chunk;
    chunks.Make(&chunk);
    EXPECT_TRUE(chunk.status.ok());
    if (chunk.kind == Chunk::Kind::kEnd) break;
    if (chunk.kind == Chunk::Kind::kPassEnd) {
      steps.of_pass[chunk.pass];
      steps.pass_rows.push_back(chunk.pass_rows);
      EXPECT_EQ(chunk.pass_rows, std::exchange(rows, 0));
      continue;
    }
    EXPECT_EQ(chunk.rows.size(), chunk.planned.size());
    EXPECT_TRUE(!chunk.rows.empty() && chunk.rows.size() <= options.rows_per_chunk);
    rows += chunk.rows.size();
    for (const StepFacts& facts : chunk.steps) {
      steps.ends.push_back(facts.end);
      steps.units.push_back(facts.units);
    }
    for (std::size_t i = 0; i < chunk.rows.size(); ++i) {
      const std::uint8_t marks = chunk.planned[i].marks;
      if (chunk.rows[i] != kNoRow) {
        share += (share.size() > 1 ? " " : "") + std::to_string(chunk.rows[i]);
      }
      if ((marks & PlannedRow::kEndsShare) != 0) {
        step.push_back(share + ((marks & PlannedRow::kRepeated) != 0 ? "]*" : "]"));
        share = "[";
      }
      if ((marks & PlannedRow::kEndsStep) == 0) continue;
      EXPECT_EQ(share, "[") << "a step ends within a share";
      EXPECT_EQ((marks & PlannedRow::kNoShare) != 0, step.empty());
      steps.of_pass[chunk.pass].push_back(std::exchange(step, {}));
    }
  }
  EXPECT_TRUE(step.empty());
  return steps;
}

TEST(ShareChunksTest, RanksTogetherHaveTheStepsAndTheirPositions) {
  for (std::uint64_t seed = 0; seed < kRandomPlans; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPlan random(seed);
    const std::vector<PlannedStep> steps = random.StepsFrom({}, 0);
    Random draws(seed);
    ShareChunks::Options options;
    options.passes = random.passes;
    options.rows_per_chunk = 1 + draws() % 30;
    options.split.ranks = 1 + draws() % (random.rules.step + 2);
    options.split.balance = draws() % 2 == 0;
    const std::uint64_t whole =
        (random.rules.step + options.split.ranks - 1) / options.split.ranks * options.split.ranks;
    options.fill_to = draws() % 2 == 0 ? whole : 0;
    const std::size_t from = steps.empty() ? 0 : draws() % steps.size();
    if (from > 0) {
      options.begin = steps[from - 1].end;
      options.first_step = from;
    }
    std::vector<RankSteps> of_rank;
    for (options.rank = 0; options.rank < options.split.ranks; ++options.rank) {
      of_rank.push_back(TakeChunks(random, options));
      ASSERT_EQ(of_rank.back().ends.size(), steps.size() - from);
    }
    std::map<std::uint64_t, std::size_t> step_of_pass;
    for (std::size_t i = from; i < steps.size(); ++i) {
      std::multiset<std::string> wanted;
      std::uint64_t units = 0;
      for (const PlannedShare& share : steps[i].shares) {
        wanted.insert(TextOf(share));
        if (share.segment == nullptr || share.repeated) continue;
        for (const std::uint32_t place : share.segment->PlacesOf(share.number)) {
          const std::uint32_t own = random.units[share.segment->RowAt(place)];
          const bool packed = random.rules.kind == Kind::kPacked;
          if (own != LengthTable::kHole) {
            units += packed ? std::min(own, random.rules.length) : own;
          }
        }
      }
      const std::size_t at = step_of_pass[steps[i].pass]++;
      std::multiset<std::string> came;
      for (const RankSteps& rank : of_rank) {
        const RankStep& part = rank.of_pass.at(steps[i].pass).at(at);
        came.insert(part.begin(), part.end());
        ASSERT_EQ(rank.ends[i - from], steps[i].end);
        ASSERT_EQ(rank.units[i - from], units);
        if (options.fill_to > 0) {
          ASSERT_EQ(part.size(), whole / options.split.ranks);
        }
      }
      while (came.size() > wanted.size()) {
        ASSERT_EQ(came.count("[]"), came.size() - wanted.size() + wanted.count("[]"));
        came.erase(came.find("[]"));
      }
      ASSERT_EQ(came, wanted) << "step " << i;
    }
  }
}

TEST(ShareChunksTest, AFailureStandsBehindTheRowsBeforeIt) {
  auto lengths = std::make_shared<TestLengths>(std::vector(kUnits.begin(), kUnits.end()));
  lengths->fails_at = 8;
  ShareChunks chunks(
      std::make_unique<SharePlan>(Packed(2, false), SharePlan::Passes{1},
                                  std::make_unique<TestOrder>(TestOrder::Options{12}), lengths),
      {});
  Chunk chunk;
  chunks.Make(&chunk);
  EXPECT_EQ(chunk.rows, (std::vector<RowNumber>{0, 2, 3, 1, 4}));
  EXPECT_EQ(chunk.status.code(), StatusCode::kDamaged);
}

}  // namespace
}  // namespace ringfeed
