#include "readers/order/mix_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "readers/order/mix_schedule.h"
#include "tests/readers/order/cursor_checks.h"
#include "tests/readers/order/fake_layout.h"
#include "tests/readers/order/slow_order.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Kind = OrderStage::Kind;
using Choices = std::vector<std::size_t>;

/// The rule, with nothing remembered but the counts.
class SlowMix {
 public:
  explicit SlowMix(std::vector<MixSchedule::Set> sets)
      : sets_(std::move(sets)), count_(sets_.size()), phase_(sets_.size()) {}

  bool AtEnd() const {
    bool any_end = false;
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      if (sets_[i].limit >= kEndlessPlaces) continue;
      any_end = true;
      if (count_[i] < sets_[i].limit) return false;
    }
    return any_end;
  }
  std::size_t Next() {
    unsigned __int128 sum = 0;
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      if (count_[i] < sets_[i].limit) sum += sets_[i].weight;
    }
    std::size_t best = sets_.size();
    unsigned __int128 earliest = 0;
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      const unsigned __int128 weight = sets_[i].weight;
      if (count_[i] >= sets_[i].limit || phase_[i] * sum / weight > draw_) continue;
      const unsigned __int128 deadline = ((phase_[i] + 1) * sum + weight - 1) / weight;
      if (best != sets_.size() && deadline >= earliest) continue;
      best = i;
      earliest = deadline;
    }
    ++draw_;
    ++phase_.at(best);
    if (++count_[best] == sets_[best].limit) {
      draw_ = 0;
      phase_.assign(phase_.size(), 0);
    }
    return best;
  }

 private:
  std::vector<MixSchedule::Set> sets_;
  std::vector<std::uint64_t> count_;
  std::vector<unsigned __int128> phase_;
  unsigned __int128 draw_ = 0;
};

std::vector<MixSchedule::Set> RandomSets(Random& random, bool may_be_endless) {
  std::vector<MixSchedule::Set> sets(1 + Below(random, 6));
  const std::uint64_t most_weight = Below(random, 2) == 0 ? 9 : std::uint64_t{1} << 32;
  for (MixSchedule::Set& set : sets) {
    set.weight = 1 + Below(random, most_weight);
    set.limit = Below(random, 400);
    if (may_be_endless && Below(random, 3) == 0) set.limit = kEndlessPlaces;
  }
  return sets;
}

Choices Draws(auto& schedule, std::size_t most) {
  Choices choices;
  for (std::size_t i = 0; i < most; ++i) {
    if constexpr (requires { schedule.at_end(); }) {
      if (schedule.at_end()) break;
    } else {
      if (schedule.AtEnd()) break;
    }
    choices.push_back(schedule.Next());
  }
  return choices;
}

TEST(MixScheduleTest, ChoosesByTheRuleWhateverTheWeightsAndEnds) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto sets = RandomSets(random, i % 2 == 0);
    MixSchedule schedule(sets);
    SlowMix slow(sets);
    ASSERT_EQ(Draws(schedule, 3000), Draws(slow, 3000)) << i;
  }
}

TEST(MixScheduleTest, NoSetIsARecordAwayFromItsShare) {
  Random random(2);
  for (int i = 0; i < 100; ++i) {
    auto sets = RandomSets(random, true);
    std::uint64_t sum = 0;
    for (auto& set : sets) {
      set.limit = kEndlessPlaces;
      sum += set.weight;
    }
    MixSchedule schedule(sets);
    for (std::uint64_t n = 1; n <= 20000; ++n) {
      (void)schedule.Next();
      for (std::size_t s = 0; s < sets.size(); ++s) {
        const auto given = static_cast<__int128>(schedule.counts()[s].count) * sum;
        const auto due = static_cast<__int128>(n) * sets[s].weight;
        ASSERT_LT(given - due, sum) << "set " << s << " draw " << n;
        ASSERT_LT(due - given, sum) << "set " << s << " draw " << n;
      }
    }
  }
}

TEST(MixScheduleTest, SkippedDrawsLeadToTheSameState) {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    const auto sets = RandomSets(random, i % 2 == 0);
    MixSchedule schedule(sets);
    const std::uint64_t draws = Below(random, 3000);
    (void)Draws(schedule, draws);
    MixSchedule skipped(sets);
    skipped.Skip(draws / 2);
    skipped.Skip(draws - draws / 2);
    ASSERT_EQ(skipped.counts(), schedule.counts());
    MixSchedule started(sets);
    started.Start(schedule.counts());
    const Choices rest = Draws(schedule, 200);
    ASSERT_EQ(Draws(skipped, 200), rest);
    ASSERT_EQ(Draws(started, 200), rest);
  }
}

TEST(MixScheduleTest, LargeCountsStayExact) {
  const std::vector<MixSchedule::Set> sets = {{7, kEndlessPlaces}, {3, std::uint64_t{1} << 40}};
  MixSchedule schedule(sets);
  schedule.Skip(std::uint64_t{10} << 38);
  EXPECT_EQ(schedule.counts()[0].count, std::uint64_t{7} << 38);
  EXPECT_EQ(schedule.counts()[1].count, std::uint64_t{3} << 38);
  EXPECT_FALSE(schedule.at_end());
  schedule.Skip(kEndlessPlaces);
  EXPECT_TRUE(schedule.at_end());
  EXPECT_EQ(schedule.counts()[1].count, std::uint64_t{1} << 40);
}

TEST(IntegerWeightsTest, AreTheSmallestThatFit) {
  using Integers = std::vector<std::uint64_t>;
  EXPECT_EQ(IntegerWeights(std::vector<double>{0.7, 0.2, 0.1}), (Integers{7, 2, 1}));
  EXPECT_EQ(IntegerWeights(std::vector<double>{1.0 / 3, 2.0 / 3}), (Integers{1, 2}));
  EXPECT_EQ(IntegerWeights(std::vector<double>{5}), (Integers{1}));
  EXPECT_EQ(IntegerWeights(std::vector<double>{200, 200}), (Integers{1, 1}));
  EXPECT_EQ(IntegerWeights(std::vector<double>{1e300, 3e300}), (Integers{1, 3}));
  const Integers large = IntegerWeights(std::vector<double>{1, std::sqrt(2.0), 1e-30});
  EXPECT_NEAR(static_cast<double>(large[1]) / static_cast<double>(large[0]), std::sqrt(2.0), 1e-9);
  EXPECT_EQ(large[2], 1U);
}

// ---- The cursor ----

struct MixCase {
  std::vector<FakeLayout> layouts;
  std::vector<OrderOptions> options;
  std::vector<std::vector<OrderStage>> stages;
  std::vector<MixInput> inputs;

  MixChain Make(std::span<const OrderStage> behind = {}, std::uint64_t kept = 5000) const {
    return MakeMixCursor(inputs, 3, behind, kept);
  }
};

OrderStage RandomStage(Random& random) {
  switch (Below(random, 3)) {
    case 0:
      return {Kind::kGlobal, 0, random()};
    case 1:
      return {Kind::kWindow, 1 + Below(random, 90), random()};
    default:
      return {Kind::kBlock, 1 + Below(random, 90), random()};
  }
}

/// Sets of which at least one has an end, where `ends`.
std::unique_ptr<MixCase> RandomMix(Random& random, bool ends) {
  auto mix = std::make_unique<MixCase>();
  const std::size_t sets = 1 + Below(random, 4);
  for (std::size_t i = 0; i < sets; ++i) {
    FakeLayout layout = RandomLayout(random);
    while (layout.rows() == 0 && !ends) layout = RandomLayout(random);
    mix->layouts.push_back(std::move(layout));
    OrderOptions options = RandomOptions(random);
    options.files.ranks = 1;
    options.files.rank = 0;
    mix->options.push_back(options);
    mix->stages.push_back({RandomStage(random)});
  }
  for (std::size_t i = 0; i < sets; ++i) {
    MixInput input{&mix->layouts[i], mix->options[i], mix->stages[i]};
    input.weight = 1 + static_cast<double>(Below(random, 20)) * 0.25;
    input.passes = ends && i == 0 ? 1 : Below(random, 3);
    if (!ends) input.passes = 0;
    if (ends && Below(random, 3) == 0) input.most_records = 1 + Below(random, 200);
    mix->inputs.push_back(input);
  }
  return mix;
}

/// The first `count` passes of a set's own order.
std::vector<Rows> OwnPasses(const MixCase& mix, std::size_t set, std::uint64_t count) {
  const OrderStage& stage = mix.stages[set].front();
  const FakeLayout& layout = mix.layouts[set];
  const OrderOptions& options = mix.options[set];
  std::vector<Rows> passes;
  for (std::uint64_t pass = 0; pass < count; ++pass) {
    passes.push_back(stage.kind == Kind::kGlobal ? SlowGlobal(layout, options, stage.seed, pass)
                                                 : SlowInterleave(layout, options, pass));
  }
  return stage.kind == Kind::kGlobal ? passes : SlowStages(passes, options.first_epoch, {stage});
}

/// Passes of the mixture, at most `most` places each.
std::vector<Rows> SlowPasses(const MixCase& mix, std::uint64_t passes, std::size_t most) {
  struct Own {
    Rows rows;  ///< of all passes, as they follow each other
    std::uint64_t each = 0;
    std::uint64_t next = 0;  ///< of a set without end
    RowNumber first_row = 0;
  };
  std::vector<double> weights;
  std::vector<Own> owns(mix.inputs.size());
  std::vector<MixSchedule::Set> sets(mix.inputs.size());
  RowNumber first_row = 0;
  for (std::size_t i = 0; i < owns.size(); ++i) {
    const MixInput& input = mix.inputs[i];
    const std::uint64_t rows = mix.layouts[i].rows();
    weights.push_back(input.weight);
    const std::uint64_t own_passes = input.passes > 0 ? input.passes * passes
                                     : rows == 0      ? 0
                                                      : passes * most / rows + 1;
    for (const Rows& pass : OwnPasses(mix, i, own_passes)) {
      owns[i].rows.insert(owns[i].rows.end(), pass.begin(), pass.end());
    }
    owns[i].each = input.passes * rows;
    owns[i].first_row = first_row;
    first_row += rows;
    sets[i].limit = input.passes > 0 || rows == 0 ? owns[i].each : kEndlessPlaces;
    if (input.most_records > 0) sets[i].limit = std::min(sets[i].limit, input.most_records);
  }
  const std::vector<std::uint64_t> integers = IntegerWeights(weights);
  for (std::size_t i = 0; i < sets.size(); ++i) sets[i].weight = integers[i];
  std::vector<Rows> result;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    SlowMix slow(sets);
    Rows& rows = result.emplace_back();
    for (std::size_t i = 0; i < owns.size(); ++i) {
      if (mix.inputs[i].passes > 0) owns[i].next = pass * owns[i].each;
    }
    for (const std::size_t set : Draws(slow, most)) {
      rows.push_back(owns[set].rows.at(owns[set].next++) + owns[set].first_row);
    }
  }
  return result;
}

TEST(MixCursorTest, SetsWithAndWithoutEndsGiveTheirRowsByTheRule) {
  Random random(10);
  for (int i = 0; i < StressRounds(150); ++i) {
    SCOPED_TRACE(i);
    const auto mix = RandomMix(random, true);
    const MixChain chain = mix->Make();
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(*chain.rows, SlowPasses(*mix, 4, 20000), random));
  }
}

TEST(MixCursorTest, AMixtureWithoutEndGoesOn) {
  Random random(11);
  for (int i = 0; i < 40; ++i) {
    const auto mix = RandomMix(random, false);
    const Rows all = SlowPasses(*mix, 1, 6000).front();
    const MixChain chain = mix->Make();
    ASSERT_EQ(chain.rows->Places(0), kEndlessPlaces);
    for (const std::uint64_t place : {std::uint64_t{0}, Below(random, 4000)}) {
      ASSERT_TRUE(chain.rows->Seek(0, place).ok());
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(place);
      ASSERT_EQ(ReadOn(*chain.rows, random, 2000), Rows(first, first + 2000));
    }
  }
}

TEST(MixCursorTest, StagesBehindTheMixtureCountItsPasses) {
  Random random(12);
  for (int i = 0; i < 40; ++i) {
    const auto mix = RandomMix(random, true);
    const std::vector<OrderStage> stages = {
        {Kind::kBlock, 40, 4}, {Kind::kMultiPass, 2, 0}, {Kind::kWindow, 100, 5}};
    const MixChain chain = mix->Make(stages);
    const auto passes = SlowStages(SlowPasses(*mix, 6, 20000), 3, stages);
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(*chain.rows, passes, random));
  }
}

TEST(MixCursorTest, AKeptStateGoesOnInAnotherCursor) {
  Random random(13);
  for (int i = 0; i < StressRounds(100); ++i) {
    SCOPED_TRACE(i);
    const auto mix = RandomMix(random, true);
    const auto passes = SlowPasses(*mix, 3, 20000);
    const MixChain chain = mix->Make();
    const MixChain other = mix->Make();
    for (std::uint64_t pass = 0; pass < 3; ++pass) {
      ASSERT_TRUE(chain.rows->Seek(pass, 0).ok());
      (void)ReadOn(*chain.rows, random, 20000);
      const std::uint64_t place = Below(random, passes[pass].size() + 1);
      MixState state;
      ASSERT_TRUE(chain.mix->StateAt(pass, place, &state).ok());
      ASSERT_EQ(state.pass, pass);
      ASSERT_EQ(state.place(), place);
      ASSERT_TRUE(other.mix->Begin(state, false).ok());
      ASSERT_TRUE(other.rows->Seek(pass, place).ok());
      const Rows tail(passes[pass].begin() + static_cast<std::ptrdiff_t>(place),
                      passes[pass].end());
      ASSERT_EQ(ReadOn(*other.rows, random, 20000), tail);
      ASSERT_NO_FATAL_FAILURE(ExpectPasses(*other.rows, passes, random));
    }
  }
}

TEST(MixCursorTest, OtherWeightsBeginANewPhaseAtAState) {
  MixCase mix;
  mix.layouts = {FakeLayout({{1000}, {0}}), FakeLayout({{1000}, {0}})};
  mix.inputs = {{&mix.layouts[0], {}, {}, 3}, {&mix.layouts[1], {}, {}, 1}};
  MixState state;
  const MixChain before = mix.Make();
  ASSERT_TRUE(before.mix->StateAt(0, 401, &state).ok());
  mix.inputs[0].weight = 1;
  mix.inputs[1].weight = 4;
  const MixChain chain = mix.Make();
  ASSERT_TRUE(chain.mix->Begin(state, true).ok());
  ASSERT_TRUE(chain.rows->Seek(0, 401).ok());
  Random random(14);
  const Rows rows = ReadOn(*chain.rows, random, 5000);
  ASSERT_EQ(rows.size(), 2000U - 401);
  std::vector<RowNumber> next = {state.sets[0].count, 1000 + state.sets[1].count};
  EXPECT_EQ(state.sets[0].count, 301U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t set = rows[i] < 1000 ? 0 : 1;
    ASSERT_EQ(rows[i], next[set]++) << "no row is lost or repeated";
    if (i + 1 != 500) continue;
    EXPECT_EQ(next[0], 301U + 100);
    EXPECT_EQ(next[1], 1000U + 100 + 400);
  }
  EXPECT_EQ(chain.rows->Places(0), 2000U);
  ASSERT_TRUE(chain.rows->Seek(0, 600).ok());
  EXPECT_EQ(ReadOn(*chain.rows, random, 5000), Rows(rows.begin() + 199, rows.end()));
  EXPECT_EQ(chain.rows->Seek(0, 400).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(chain.rows->Seek(1, 0).ok());
  EXPECT_EQ(ReadOn(*chain.rows, random, 5000).size(), 2000U);
}

TEST(MixCursorTest, ChangesOfWeightsAreThoseOfStatesThatGoOnWithOthers) {
  Random random(15);
  for (int i = 0; i < StressRounds(150); ++i) {
    SCOPED_TRACE(i);
    const auto mix = RandomMix(random, true);
    const MixChain chain = mix->Make();
    std::vector<Rows> passes;
    const auto read_pass = [&](MixChain& from, std::uint64_t pass, std::uint64_t place) {
      passes.resize(pass + 1);
      passes[pass].resize(place);
      ASSERT_TRUE(from.rows->Seek(pass, place).ok());
      const Rows rest = ReadOn(*from.rows, random, 20000);
      passes[pass].insert(passes[pass].end(), rest.begin(), rest.end());
    };
    MixChain last = mix->Make();
    MixCase other = *mix;  // the layouts and the stages stay those of `mix`
    OrderPlace at;
    for (int change = 0; change < 3; ++change) {
      const std::uint64_t until = at.pass + Below(random, 3);
      for (std::uint64_t pass = at.pass; pass <= until; ++pass) {
        read_pass(last, pass, pass == at.pass ? at.place : 0);
      }
      const std::uint64_t begin = until == at.pass ? at.place : 0;
      if (passes[until].size() <= begin + 1) break;
      at = {until, begin + 1 + Below(random, passes[until].size() - begin - 1)};
      MixState state;
      ASSERT_TRUE(last.mix->StateAt(at.pass, at.place, &state).ok());
      std::vector<double> weights;
      for (MixInput& input : other.inputs) {
        input.weight = 1 + static_cast<double>(Below(random, 20));
        weights.push_back(input.weight);
      }
      if (Below(random, 2) == 0) {  // known before or after it is read
        ASSERT_TRUE(chain.rows->Seek(at.pass, at.place).ok());
        (void)ReadOn(*chain.rows, random, 1 + Below(random, 50));
      }
      chain.mix->ChangeAt(at, IntegerWeights(weights));
      last = other.Make();
      ASSERT_TRUE(last.mix->Begin(state, true).ok());
    }
    for (std::uint64_t pass = at.pass; pass < at.pass + 3; ++pass) {
      read_pass(last, pass, pass == at.pass ? at.place : 0);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(*chain.rows, passes, random));
  }
}

TEST(MixCursorTest, StatesOfOtherMixturesAreRefused) {
  MixCase mix;
  mix.layouts = {FakeLayout({{10}, {0}}), FakeLayout({{10}, {0}})};
  mix.inputs = {{&mix.layouts[0], {}, {}, 1}, {&mix.layouts[1], {}, {}, 1, 0}};
  const MixChain chain = mix.Make();
  EXPECT_EQ(chain.mix->Begin({0, {{0, 5, 5}}}, false).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(chain.mix->Begin({0, {{0, 11, 0}, {0, 5, 5}}}, false).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(chain.mix->Begin({0, {{0, 3, 4}, {0, 5, 5}}}, false).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(chain.mix->Begin({0, {{0, 5, 5}, {700, 5, 5}}}, false).ok());
}

}  // namespace
}  // namespace ringfeed
