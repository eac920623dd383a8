// Mixtures whose weights change by the step: against chains that are restored with other weights,
// from every position on, on several ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "readers/order/position.h"
#include "ringfeed/sequences.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
using Schedule = std::vector<MixWeights>;
using Records = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// Batches from a reader's position on: the records of each by file and number, and the position
/// before each of them and after the last.
struct Course {
  std::vector<Records> batches;
  std::vector<std::string> positions;
};

/// Up to `most` steps of so many reads. A step of several reads has one position.
Course ReadOn(Reader& reader, std::size_t most = kAll, std::size_t reads = 1) {
  Course course;
  course.positions.push_back(reader.Position());
  Instance batch;
  BatchOrigin origin;
  ReadResult result = ReadResult::kRecord;
  for (std::size_t i = 0; most == kAll || i < most * reads; ++i) {
    result = reader.TryReadNext(&batch, {.origin = &origin});
    if (result != ReadResult::kRecord) break;
    if (i % reads == 0) course.batches.emplace_back();
    for (const RecordRange& range : origin.records) {
      for (std::uint64_t each = 0; each < range.count; ++each) {
        course.batches.back().emplace_back(range.file, range.first + each);
      }
    }
    if (i % reads == reads - 1) course.positions.push_back(reader.Position());
  }
  EXPECT_NE(result, ReadResult::kFailed) << reader.status().ToString();
  return course;
}

template <typename Item>
std::vector<Item> From(const std::vector<Item>& all, std::size_t first) {
  return {all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size())), all.end()};
}

template <typename Item>
std::vector<Item> First(std::vector<Item> all, std::size_t count) {
  all.resize(std::min(count, all.size()));
  return all;
}

ChainPosition Parsed(const std::string& text) {
  ChainPosition position;
  EXPECT_TRUE(ParsePosition(text, &position).ok()) << text;
  return position;
}

std::string WhyRefused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status().message();
  }
  return "";
}

class MixWeightsTest : public PipelineTest {
 protected:
  using Draws = std::mt19937_64;
  using MakeChain = std::function<Reader(const Schedule&, Rank)>;

  void SetUp() override { files_ = MakeFiles(3, 40, 8, 60); }

  /// Of some sets, of which `ends` have an end; without it none has.
  struct Sets {
    std::vector<std::uint64_t> passes;
    std::vector<std::uint64_t> most;
    bool any_ends() const {
      return std::ranges::any_of(passes, [](auto n) { return n > 0; });
    }
    bool all_end() const {
      return std::ranges::all_of(passes, [](auto n) { return n > 0; });
    }
  };
  static Sets RandomSets(Draws& draws) {
    Sets sets;
    for (std::size_t i = 0; i < 2 + draws() % 2; ++i) {
      sets.passes.push_back(draws() % 3);
      sets.most.push_back(sets.passes.back() > 0 && draws() % 3 == 0 ? 1 + draws() % 30 : 0);
    }
    if (draws() % 5 > 0) sets.passes.front() = std::max<std::uint64_t>(1, sets.passes.front());
    return sets;
  }
  Reader Mixed(const Sets& sets, const Schedule& schedule) {
    OpenOptions options = Options();
    options.note_records = true;
    std::vector<MixSet> mixed;
    for (std::size_t i = 0; i < sets.passes.size(); ++i) {
      Reader set = OpenFiles({files_[i]}, options);
      if (i == 1) set = Shuffle(std::move(set), {.seed = 3, .mode = ShuffleMode::kGlobal});
      mixed.push_back(
          {.records = std::move(set), .passes = sets.passes[i], .most_records = sets.most[i]});
    }
    return Mix(mixed, {.schedule = schedule}, options);
  }
  /// Of up to four entries, changed at steps up to `steps`.
  static Schedule RandomSchedule(Draws& draws, std::size_t sets, std::uint64_t steps) {
    Schedule schedule;
    std::uint64_t from = 0;
    for (std::size_t i = 0; i < 1 + draws() % 4; ++i, from += 1 + draws() % steps) {
      MixWeights each{from, {}};
      for (std::size_t set = 0; set < sets; ++set) {
        each.weights.push_back(1 + static_cast<double>(draws() % 5));
      }
      schedule.push_back(std::move(each));
    }
    return schedule;
  }
  static Schedule Only(const MixWeights& weights) { return {{0, weights.weights}}; }

  /// From each position on the same follows, by Restore, SeekTo or SkipBatches.
  static void ExpectSameFromEveryPosition(const MakeChain& chain, const Schedule& schedule,
                                          const Course& all, std::size_t reads) {
    constexpr std::size_t kRead = 5;
    for (std::size_t i = 0; i < all.positions.size(); ++i) {
      const std::size_t way = i % 3;
      SCOPED_TRACE("step " + std::to_string(i) + " way " + std::to_string(way));
      Reader reader = chain(schedule, {});
      if (way == 0) reader.SeekTo(i * reads);
      if (way == 1) reader.Restore(all.positions[i]);
      if (way == 2) {
        reader.Restore(all.positions[i / 2]);
        reader.SkipBatches((i - i / 2) * reads);
      }
      // Some to the end.
      const std::size_t left = all.batches.size() - i;
      const std::size_t some = i % 7 == 1 ? left : std::min(kRead, left);
      const Course rest = ReadOn(reader, some, reads);
      ASSERT_EQ(rest.batches, First(From(all.batches, i), some));
      ASSERT_EQ(rest.positions, First(From(all.positions, i), some + 1));
    }
  }

  std::vector<std::string> files_;
};

TEST_F(MixWeightsTest, ARunIsThatOfRestoresWithOtherWeightsAtTheSteps) {
  for (int seed = 0; seed < StressRounds(20); ++seed) {
    Draws draws(static_cast<std::uint64_t>(seed));
    const Sets sets = RandomSets(draws);
    const std::size_t size = draws() % 4 == 0 ? 0 : 1 + draws() % 9;  // 0: without Batch
    const bool drop = draws() % 2 == 0;
    const std::uint64_t passes = 1 + draws() % 3;
    const bool joined = sets.all_end() && draws() % 2 == 0;
    const std::uint64_t steps = 160 / std::max<std::size_t>(1, size) + 1;
    const Schedule schedule = RandomSchedule(draws, sets.passes.size(), steps);
    const std::size_t most = sets.any_ends() && size > 0 ? kAll : 40;
    const MakeChain chain = [&](const Schedule& each, Rank rank) {
      Reader reader = Mixed(sets, each);
      if (joined || size == 0) reader = MultiPass(std::move(reader), joined ? passes : 1);
      if (size == 0) return reader;
      reader = Batch(Parse(std::move(reader), RawParser()),
                     {.size = size, .drop_remainder = drop, .rank = rank});
      return joined ? reader : MultiPass(std::move(reader), passes);
    };
    SCOPED_TRACE("seed " + std::to_string(seed) + " size " + std::to_string(size));
    Course wanted;
    std::string position;
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      Reader reader = chain(Only(schedule[i]), {});
      if (i > 0) reader.Restore(position);
      std::size_t some = most;
      if (i + 1 < schedule.size()) {
        some = std::min(most, static_cast<std::size_t>(schedule[i + 1].from_step));
      }
      const Course part = ReadOn(reader, some == kAll ? kAll : some - wanted.batches.size());
      wanted.batches.insert(wanted.batches.end(), part.batches.begin(), part.batches.end());
      if (i > 0) wanted.positions.pop_back();  // that with the weights of before
      wanted.positions.insert(wanted.positions.end(), part.positions.begin(), part.positions.end());
      position = wanted.positions.back();
      const std::size_t read = wanted.batches.size();
      if (i + 1 < schedule.size() && read < schedule[i + 1].from_step) break;
    }
    Reader reader = chain(schedule, {});
    const Course all = ReadOn(reader, most);
    ASSERT_EQ(all.batches, wanted.batches);
    for (std::size_t i = 0; i < all.positions.size(); ++i) {
      const auto changes = [i](const MixWeights& each) { return each.from_step == i; };
      if (i + 1 == all.positions.size() && std::ranges::any_of(schedule, changes)) continue;
      ASSERT_EQ(all.positions[i], wanted.positions[i]) << i;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSameFromEveryPosition(chain, schedule, all, 1));
    // What is before the first change knows nothing of it, and what is after the last nothing else.
    Reader plain = chain(Only(schedule.front()), {});
    const Course before = ReadOn(plain, schedule.size() > 1 ? schedule[1].from_step : 3);
    reader = chain(schedule, {});
    reader.Restore(before.positions.back());
    if (before.batches.size() < all.batches.size()) {
      ASSERT_EQ(ReadOn(reader, most == kAll ? kAll : most - before.batches.size()).batches,
                From(all.batches, before.batches.size()));
    }
    if (schedule.back().from_step < all.batches.size()) {
      const std::size_t last = schedule.back().from_step;
      plain = chain(Only(schedule.back()), {});
      plain.Restore(all.positions[last]);
      ASSERT_EQ(ReadOn(plain, most == kAll ? kAll : most - last).batches, From(all.batches, last));
    }
    if (size < 2) continue;
    for (std::size_t i = draws() % 4; i < all.batches.size(); i += 1 + all.batches.size() / 3) {
      std::vector<Records> both(all.batches.size() - i);
      for (const int rank : {0, 1}) {
        Reader one = chain(schedule, {rank, 2});
        one.Restore(all.positions[i]);
        const Course part = ReadOn(one, both.size());
        ASSERT_EQ(part.positions, From(all.positions, i));
        for (std::size_t k = 0; k < part.batches.size(); ++k) {
          both[k].insert(both[k].end(), part.batches[k].begin(), part.batches[k].end());
        }
      }
      for (std::size_t k = 0; k < both.size(); ++k) {
        std::ranges::sort(both[k]);
        Records whole = all.batches[i + k];
        std::ranges::sort(whole);
        ASSERT_EQ(both[k], whole);
      }
    }
  }
}

/// Planned batches of some kind over a mixture.
Reader Planned(Reader mixed, int kind, std::size_t shares, std::uint64_t alike, Rest rest,
               Rank rank) {
  Reader rows = Parse(std::move(mixed), RawParser());
  StepOptions steps{.rank = rank};
  steps.rest = rest;
  if (alike > 0) steps.balance = Balance{.alike = alike};
  switch (kind) {
    case 0:
      return Pack(std::move(rows), {.field = "bytes",
                                    .length = 64,
                                    .rows = shares,
                                    .segment = 20,
                                    .fit = PackFit::kBest,
                                    .steps = steps});
    case 1: {
      TokenBatchOptions options;
      options.field = "bytes";
      options.tokens = 100;
      options.shares = shares;
      options.segment = 20;
      options.steps = steps;
      return TokenBatch(std::move(rows), options);
    }
    default:
      return BucketBatch(std::move(rows), {.size = shares,
                                           .field = "bytes",
                                           .bounds = {20, 40},
                                           .segment = shares * 5,
                                           .steps = steps});
  }
}

TEST_F(MixWeightsTest, PlannedStepsComeAgainFromEveryPositionOnAnyNumberOfRanks) {
  for (int seed = 0; seed < StressRounds(30); ++seed) {
    Draws draws(static_cast<std::uint64_t>(seed));
    Sets sets = RandomSets(draws);
    sets.passes.front() = std::max<std::uint64_t>(1, sets.passes.front());
    const int kind = static_cast<int>(draws() % 3);
    const std::size_t shares = draws() % 2 == 0 ? 1 : 3;
    const std::uint64_t alike = draws() % 3 == 0 ? 3 : draws() % 2;
    const Rest rest = draws() % 2 == 0 ? Rest::kShort : Rest::kDrop;
    const std::uint64_t passes = 1 + draws() % 2;
    const bool joined = sets.all_end() && draws() % 2 == 0;
    const Schedule schedule = RandomSchedule(draws, sets.passes.size(), 18 / shares);
    const MakeChain chain = [&](const Schedule& each, Rank rank) {
      Reader reader = Mixed(sets, each);
      if (joined) reader = MultiPass(std::move(reader), passes);
      reader = Planned(std::move(reader), kind, shares, alike, rest, rank);
      return joined ? reader : MultiPass(std::move(reader), passes);
    };
    const auto reads = [&](std::size_t ranks) {
      return kind == 1 ? (shares + ranks - 1) / ranks : std::size_t{1};
    };
    SCOPED_TRACE("seed " + std::to_string(seed) + " kind " + std::to_string(kind));
    Reader reader = chain(schedule, {});
    const Course all = ReadOn(reader, kAll, reads(1));
    ASSERT_NO_FATAL_FAILURE(ExpectSameFromEveryPosition(chain, schedule, all, reads(1)));
    for (std::size_t ranks = 2; ranks <= shares; ++ranks) {
      const std::size_t first = draws() % all.positions.size();
      std::vector<Records> joint(all.batches.size() - first);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        Reader one = chain(schedule, {static_cast<int>(rank), static_cast<int>(ranks)});
        one.Restore(all.positions[first]);
        const Course part = ReadOn(one, kAll, reads(ranks));
        ASSERT_EQ(part.positions, From(all.positions, first));
        for (std::size_t k = 0; k < joint.size(); ++k) {
          joint[k].insert(joint[k].end(), part.batches[k].begin(), part.batches[k].end());
        }
      }
      for (std::size_t k = 0; k < joint.size(); ++k) {
        Records whole = all.batches[first + k];
        std::ranges::sort(joint[k]);
        std::ranges::sort(whole);
        ASSERT_EQ(joint[k], whole) << k;
      }
    }
    // Up to the first change the weights alone lead there, to the middle of a segment too.
    if (schedule.size() > 1) {
      Reader plain = chain(Only(schedule.front()), {});
      const Course before = ReadOn(plain, schedule[1].from_step, reads(1));
      const bool may_exchange = Parsed(before.positions.back()).mark->done > 0;
      if (!may_exchange && before.batches.size() < all.batches.size()) {
        reader = chain(schedule, {});
        reader.Restore(before.positions.back());
        ASSERT_EQ(ReadOn(reader, kAll, reads(1)).batches, From(all.batches, before.batches.size()));
      }
    }
    if (shares > 1 || alike > 1) continue;
    // Each segment ends with a step: the weights change at the first such end.
    Course wanted;
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      reader = chain(Only(schedule[i]), {});
      if (i > 0) reader.Restore(wanted.positions.back());
      Course part = ReadOn(reader);
      if (i + 1 < schedule.size()) {
        std::size_t count = 0;
        while (count < part.batches.size() &&
               (wanted.batches.size() + count < schedule[i + 1].from_step ||
                Parsed(part.positions[count]).mark->outputs > 0)) {
          ++count;
        }
        part.batches.resize(count);
        part.positions.resize(count + 1);
      }
      wanted.batches.insert(wanted.batches.end(), part.batches.begin(), part.batches.end());
      wanted.positions = part.positions;
    }
    ASSERT_EQ(all.batches, wanted.batches);
  }
}

// Segments begin and end within steps.
TEST_F(MixWeightsTest, AChangeAtAnyStepOfASegmentComesAgain) {
  const Sets sets{{1, 1, 0}, {0, 0, 0}};
  for (std::size_t step = 1; step < 18; ++step) {
    const auto chain = [&] {
      return Planned(Mixed(sets, {{0, {1, 1, 1}}, {step, {1, 4, 2}}}), 0, 3, 1, Rest::kShort, {});
    };
    Reader reader = chain();
    const Course all = ReadOn(reader);
    ASSERT_GT(all.batches.size(), 12u);
    for (std::size_t i = step - 1; i < std::min(step + 5, all.batches.size()); ++i) {
      Reader again = chain();
      again.Restore(all.positions[i]);
      ASSERT_EQ(ReadOn(again).batches, From(all.batches, i)) << step << " from " << i;
    }
  }
}

TEST_F(MixWeightsTest, OtherWeightsWithinASegmentAreRefused) {
  const Sets sets{{1, 1}, {0, 0}};
  for (const std::uint64_t alike : {std::uint64_t{1}, std::uint64_t{4}}) {
    const auto chain = [&](const Schedule& schedule) {
      return Planned(Mixed(sets, schedule), 0, 2, alike, Rest::kShort, {});
    };
    Reader reader = chain({{0, {1, 1}}, {9, {1, 4}}});
    const Course all = ReadOn(reader);
    ASSERT_GT(all.batches.size(), 12u);
    for (std::size_t i = 0; i < all.positions.size(); ++i) {
      const PlanPosition mark = *Parsed(all.positions[i]).mark;
      const bool within = mark.outputs + mark.done > 0;
      Reader other = chain({{0, {3, 1}}});
      const std::string why = WhyRefused([&] { other.Restore(all.positions[i]); });
      EXPECT_EQ(why.find("within a segment") != std::string::npos, within) << i << why;
      // Steps that exchange shares come again together: a change among them is another one.
      if (i == 0 || i >= 8) continue;
      Reader sooner = chain({{0, {1, 1}}, {i + 1, {1, 4}}});
      const bool refused = !WhyRefused([&] { sooner.Restore(all.positions[i]); }).empty();
      EXPECT_EQ(refused, mark.done > 0 && mark.done + 1 < alike) << i;
    }
  }
}

TEST_F(MixWeightsTest, SchedulesThatAreNoneAndChainsWithoutNumbersAreRefused) {
  const Sets sets{{1, 1}, {0, 0}};
  const Schedule two = {{0, {1, 1}}, {4, {1, 3}}};
  const auto why = [&](const Schedule& schedule) {
    return WhyRefused([&] { (void)Mixed(sets, schedule); });
  };
  EXPECT_EQ(why(two), "");
  EXPECT_NE(why({{1, {1, 1}}}).find("begins at step 0"), std::string::npos);
  EXPECT_NE(why({{0, {1, 1}}, {0, {1, 2}}}).find("later one"), std::string::npos);
  EXPECT_NE(why({{0, {1, 1}}, {3, {1}}}).find("the sets are 2"), std::string::npos);
  EXPECT_NE(why({{0, {1, 1}}, {3, {1, 0}}}).find("above 0"), std::string::npos);
  EXPECT_NE(WhyRefused([&] {
              (void)Mix({{.records = OpenFiles({files_[0]}, Options()), .weight = 2}},
                        {.schedule = {{0, {1}}}});
            }).find("MixSet::weight"),
            std::string::npos);
  const auto chain_why = [&](const std::function<Reader(Reader)>& on, const Sets& of) {
    return WhyRefused([&] { (void)on(Mixed(of, two)).slots(); });
  };
  const auto keep = [](const RecordSpan&) { return true; };
  EXPECT_NE(
      chain_why([&](Reader r) { return Batches(Filter(r, keep), 4); }, sets).find("StepOptions"),
      std::string::npos);
  EXPECT_NE(chain_why(
                [](Reader r) {
                  return Pack(Parse(r, RawParser()), {.field = "bytes", .length = 64, .rows = 2});
                },
                sets)
                .find("StepOptions"),
            std::string::npos);
  EXPECT_NE(chain_why([](Reader r) { return Batches(Shuffle(r, {.window = 9}), 4); }, sets)
                .find("in front of Mix"),
            std::string::npos);
  EXPECT_NE(chain_why([](Reader r) { return Batches(MultiPass(r, 2), 4); }, {{1, 0}, {0, 0}})
                .find("behind Batch"),
            std::string::npos);
}

}  // namespace
}  // namespace ringfeed
