#include "readers/order/row_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "readers/engine/files/file_schedule.h"
#include "readers/engine/files/file_table.h"
#include "readers/order/files_of_pass.h"
#include "tests/readers/order/cursor_checks.h"
#include "tests/readers/order/fake_layout.h"
#include "tests/readers/order/slow_order.h"
#include "tests/support/counted_files.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Kind = OrderStage::Kind;

std::vector<Rows> Passes(std::uint64_t count, const auto& pass_of) {
  std::vector<Rows> passes;
  for (std::uint64_t pass = 0; pass < count; ++pass) passes.push_back(pass_of(pass));
  return passes;
}

TEST(FilesOfPassTest, AgreeWithTheFormula) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const FakeLayout layout = RandomLayout(random);
    OrderOptions options = RandomOptions(random);
    options.first_epoch = 0;
    const std::uint64_t pass = Below(random, 6);
    const Rows expected = SlowFiles(layout, options, pass);
    const std::vector<std::size_t> files = FilesOfPass(layout.files(), options.files, pass);
    ASSERT_EQ(Rows(files.begin(), files.end()), expected);
  }
}

TEST(InterleaveCursorTest, GivesTheOrderOfFilesInTurn) {
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const FakeLayout layout = RandomLayout(random);
    const OrderOptions options = RandomOptions(random);
    const auto cursor = MakeRowCursor(layout, options, {});
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(
        *cursor, Passes(4, [&](auto pass) { return SlowInterleave(layout, options, pass); }),
        random));
  }
}

/// Bytes that nobody reads.
class SizedSource final : public Source {
 public:
  explicit SizedSource(std::uint64_t bytes) : bytes_(bytes) {}
  std::string name() const override { return "source"; }
  std::uint64_t Size() const override { return bytes_; }
  Status ReadAt(std::uint64_t /*offset*/, std::span<std::byte> out, std::size_t* got) override {
    std::fill(out.begin(), out.end(), std::byte{1});
    *got = out.size();
    return {};
  }

 private:
  const std::uint64_t bytes_;
};

/// The stripes of a pass in the order in which the schedule's lanes take turns.
Rows ScheduledRows(FileSchedule& schedule, const RowLayout& layout) {
  std::vector<std::vector<std::pair<std::size_t, std::uint64_t>>> turns(schedule.lanes());
  for (std::size_t lane = 0; lane < turns.size(); ++lane) {
    Assignment assignment;
    while ((assignment = schedule.Next(lane)).kind == Assignment::Kind::kFile) {
      for (std::uint64_t s = 0; s < assignment.stripes; ++s) {
        turns[lane].emplace_back(assignment.file, s);
      }
    }
  }
  Rows rows;
  bool any = true;
  for (std::size_t round = 0; std::exchange(any, false); ++round) {
    for (const auto& lane : turns) {
      if (lane.size() <= round) continue;
      any = true;
      RowNumber row = 0;
      RowNumber end = 0;
      EXPECT_TRUE(layout.FirstRowOfStripe(lane[round].first, lane[round].second, &row).ok());
      EXPECT_TRUE(layout.FirstRowOfStripe(lane[round].first, lane[round].second + 1, &end).ok());
      for (; row < end; ++row) rows.push_back(row);
    }
  }
  return rows;
}

TEST(InterleaveCursorTest, AgreesWithTheScheduleOfFiles) {
  constexpr std::uint64_t kStripe = 10;
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    std::vector<FakeLayout::Stripes> files(1 + Below(random, 9));
    std::vector<std::shared_ptr<Source>> sources;
    for (FakeLayout::Stripes& file : files) {
      const std::uint64_t bytes = Below(random, 4) == 0 ? 0 : Below(random, 80);
      sources.push_back(std::make_shared<SizedSource>(bytes));
      for (std::uint64_t at = 0; at < bytes; at += kStripe) {
        file.push_back(std::min(kStripe, bytes - at));
      }
    }
    const FakeLayout layout(files);
    OrderOptions options = RandomOptions(random);
    options.first_epoch = 0;
    FileSchedule schedule(std::vector<std::string>(sources.size(), "a source"), sources,
                          {.cycle = options.cycle,
                           .stripe_bytes = kStripe,
                           .passes = 3,
                           .format = "rows:1",
                           .order = options.files});
    const auto cursor = MakeRowCursor(layout, options, {});
    for (std::uint64_t pass = 0; pass < 3; ++pass) {
      const Rows expected = ScheduledRows(schedule, layout);
      ASSERT_TRUE(cursor->Seek(pass, 0).ok());
      ASSERT_EQ(ReadOn(*cursor, random, layout.rows() + 1), expected);
    }
  }
}

TEST(BlocksCursorTest, GivesStripesInTheOrderOfAPermutation) {
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const FakeLayout layout = RandomLayout(random);
    const OrderOptions options = RandomOptions(random);
    const OrderStage stage{Kind::kStripes, 0, random()};
    const auto cursor = MakeRowCursor(layout, options, {{stage}});
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(
        *cursor,
        Passes(4, [&](auto pass) { return SlowBlocks(layout, options, stage.seed, pass); }),
        random));
  }
}

TEST(BlocksCursorTest, AWindowFollowsWithTheSameSeed) {
  Random random(5);
  const FakeLayout layout = RandomLayout(random, 200);
  const OrderOptions options;
  const auto cursor = MakeRowCursor(layout, options, {{{Kind::kStripes, 70, 9}}});
  const auto passes = Passes(3, [&](auto pass) { return SlowBlocks(layout, options, 9, pass); });
  ExpectPasses(*cursor, SlowStages(passes, 0, {{Kind::kWindow, 70, 9}}), random);
}

TEST(GlobalCursorTest, GivesRowsInTheOrderOfAPermutation) {
  Random random(6);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const FakeLayout layout = RandomLayout(random);
    const OrderOptions options = RandomOptions(random);
    const OrderStage stage{Kind::kGlobal, 0, random()};
    const auto cursor = MakeRowCursor(layout, options, {{stage}});
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(
        *cursor,
        Passes(4, [&](auto pass) { return SlowGlobal(layout, options, stage.seed, pass); }),
        random));
  }
}

/// Rows that are kept, by a list.
class ListedRows final : public KeptRows {
 public:
  ListedRows(Rows rows, RowNumber all) : rows_(std::move(rows)), all_(all) {}
  std::uint64_t count() const override { return rows_.size(); }
  RowNumber all() const override { return all_; }
  std::uint64_t Before(RowNumber row) const override {
    return static_cast<std::uint64_t>(
        std::count_if(rows_.begin(), rows_.end(), [row](RowNumber each) { return each < row; }));
  }
  Status ToRows(std::span<RowNumber> numbers) const override {
    for (RowNumber& number : numbers) number = rows_.at(number);
    return {};
  }

 private:
  const Rows rows_;
  const RowNumber all_;
};

/// The same files of the kept rows alone.
FakeLayout Without(const FakeLayout& layout, const Rows& kept) {
  std::vector<FakeLayout::Stripes> files(layout.files());
  for (std::size_t file = 0; file < files.size(); ++file) {
    for (std::uint64_t stripe = 0; stripe < layout.stripes(file); ++stripe) {
      RowNumber first = 0;
      RowNumber end = 0;
      EXPECT_TRUE(layout.FirstRowOfStripe(file, stripe, &first).ok());
      EXPECT_TRUE(layout.FirstRowOfStripe(file, stripe + 1, &end).ok());
      files[file].push_back(static_cast<std::uint64_t>(std::count_if(
          kept.begin(), kept.end(), [=](RowNumber row) { return row >= first && row < end; })));
    }
  }
  return FakeLayout(std::move(files));
}

TEST(KeptLayoutTest, OrdersAreThoseOfDataThatHaveNoOtherRows) {
  Random random(31);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const FakeLayout layout = RandomLayout(random);
    const std::uint64_t one_of = 1 + Below(random, 4);
    Rows numbers;
    for (RowNumber row = 0; row < layout.rows(); ++row) {
      if (Below(random, one_of) == 0) numbers.push_back(row);
    }
    const ListedRows rows(numbers, layout.rows());
    const KeptLayout kept(layout, rows);
    const FakeLayout alone = Without(layout, numbers);
    const OrderOptions options = RandomOptions(random);
    const std::uint64_t seed = random();
    const std::vector<OrderStage> stages[] = {
        {}, {{Kind::kStripes, 0, seed}}, {{Kind::kGlobal, 0, seed}}, {{Kind::kWindow, 9, seed}}};
    for (const auto& some : stages) {
      std::vector<Rows> passes = Passes(3, [&](auto pass) {
        return some.empty() || some[0].kind == Kind::kWindow ? SlowInterleave(alone, options, pass)
               : some[0].kind == Kind::kStripes ? SlowBlocks(alone, options, seed, pass)
                                                : SlowGlobal(alone, options, seed, pass);
      });
      if (!some.empty() && some[0].kind == Kind::kWindow) {
        passes = SlowStages(std::move(passes), options.first_epoch, some);
      }
      for (Rows& pass : passes) {
        for (RowNumber& row : pass) row = numbers.at(row);
      }
      const auto cursor = MakeRowCursor(kept, options, some);
      ASSERT_NO_FATAL_FAILURE(ExpectPasses(*cursor, passes, random));
    }
  }
}

TEST(GlobalCursorTest, EachPassHasAnotherOrderOfAllRows) {
  const FakeLayout layout({{1000}, {}, {3, 0, 997}});
  const auto cursor = MakeRowCursor(layout, {}, {{{Kind::kGlobal, 0, 1}}});
  Random random(7);
  Rows before;
  for (std::uint64_t pass = 0; pass < 3; ++pass) {
    ASSERT_TRUE(cursor->Seek(pass, 0).ok());
    Rows rows = ReadOn(*cursor, random, 3000);
    ASSERT_NE(rows, before);
    before = rows;
    std::sort(rows.begin(), rows.end());
    Rows all(2000);
    std::iota(all.begin(), all.end(), 0);
    ASSERT_EQ(rows, all);
  }
}

std::vector<OrderStage> RandomStages(Random& random) {
  std::vector<OrderStage> stages(1 + Below(random, 4));
  for (OrderStage& stage : stages) {
    stage.seed = random();
    switch (Below(random, 3)) {
      case 0:
        stage = {Kind::kWindow, 1 + Below(random, Below(random, 2) == 0 ? 40 : 700), random()};
        break;
      case 1:
        stage = {Kind::kBlock, 1 + Below(random, 90), random()};
        break;
      default:
        stage = {Kind::kMultiPass, 1 + Below(random, 3), 0};
    }
  }
  return stages;
}

/// Whole passes alone: those that a join has only a part of are none.
std::vector<Rows> WholePasses(std::vector<Rows> passes, std::uint64_t source_passes,
                              const std::vector<OrderStage>& stages) {
  std::uint64_t whole = source_passes;
  for (const OrderStage& stage : stages) {
    if (stage.kind == Kind::kMultiPass) whole /= stage.amount;
  }
  passes.resize(whole);
  return passes;
}

TEST(RowCursorTest, RandomChainsOfStagesAgreeWithSortedPasses) {
  constexpr std::uint64_t kSourcePasses = 36;
  Random random(8);
  for (int i = 0; i < StressRounds(400); ++i) {
    SCOPED_TRACE(i);
    const FakeLayout layout = RandomLayout(random, i % 4 == 0 ? 200 : 10);
    const OrderOptions options = RandomOptions(random);
    const std::vector<OrderStage> stages = RandomStages(random);
    const auto source =
        Passes(kSourcePasses, [&](auto pass) { return SlowInterleave(layout, options, pass); });
    std::vector<Rows> passes =
        WholePasses(SlowStages(source, options.first_epoch, stages), kSourcePasses, stages);
    if (passes.empty()) continue;
    if (passes.size() > 3) passes.resize(3);
    const auto cursor = MakeRowCursor(layout, options, stages);
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(*cursor, passes, random));
  }
}

TEST(WindowCursorTest, LargeWindowsFillTheirBucketsAndAreSoughtExactly) {
  const FakeLayout layout({{20000}, {7, 7000}, {0, 13000}});
  const auto source = Passes(2, [&](auto pass) { return SlowInterleave(layout, {}, pass); });
  Random random(10);
  for (const std::uint64_t window : {1U, 63U, 64U, 65U, 1000U, 39999U, 40007U, 100000U}) {
    SCOPED_TRACE(window);
    const std::vector<OrderStage> stages = {{Kind::kWindow, window, 5}};
    const auto cursor = MakeRowCursor(layout, {}, stages);
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(*cursor, SlowStages(source, 0, stages), random));
  }
}

TEST(JoinCursorTest, PassesWithoutEndAreOne) {
  Random random(11);
  const FakeLayout layout({{10, 3}, {5}, {0, 40}});
  OrderOptions options;
  options.files.shuffle = true;
  for (const std::size_t ranks : {1U, 2U}) {
    options.files.ranks = ranks;
    const std::vector<OrderStage> stages = {
        {Kind::kBlock, 9, 1}, {Kind::kMultiPass, 0, 0}, {Kind::kWindow, 33, 4}};
    const auto source =
        Passes(200, [&](auto pass) { return SlowInterleave(layout, options, pass); });
    const Rows all = SlowStages(source, 0, stages).front();
    const auto cursor = MakeRowCursor(layout, options, stages);
    EXPECT_EQ(cursor->Places(0), kEndlessPlaces);
    for (const std::uint64_t place : {0U, 1U, 57U, 58U, 59U, 1000U, 3000U}) {
      ASSERT_TRUE(cursor->Seek(0, place).ok());
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(place);
      ASSERT_EQ(ReadOn(*cursor, random, 500), Rows(first, first + 500));
    }
  }
}

TEST(JoinCursorTest, AnEndlessPassOverNothingFails) {
  const FakeLayout layout({{}, {0, 0}});
  const auto cursor = MakeRowCursor(layout, {}, {{{Kind::kMultiPass, 0, 0}}});
  ASSERT_TRUE(cursor->Seek(0, 0).ok());
  RowNumber row = 0;
  std::size_t count = 0;
  EXPECT_EQ(cursor->Next({&row, 1}, &count).code(), StatusCode::kInvalidArgument);
}

TEST(JoinCursorTest, APlaceInAnEndlessPassOverNothingFails) {
  const FakeLayout layout({{}, {0, 0}});
  const std::vector<std::vector<OrderStage>> chains = {
      {{Kind::kMultiPass, 0, 0}},
      {{Kind::kGlobal, 0, 1}, {Kind::kMultiPass, 0, 0}},
      {{Kind::kStripes, 0, 1}, {Kind::kMultiPass, 0, 0}}};
  for (const auto& stages : chains) {
    const auto cursor = MakeRowCursor(layout, {}, stages);
    EXPECT_EQ(cursor->Seek(0, 4).code(), StatusCode::kInvalidArgument);
  }
}

TEST(JoinCursorTest, OriginIsWhereTheBottomIsReadFrom) {
  const FakeLayout layout(std::vector<FakeLayout::Stripes>{{100}});
  const std::vector<OrderStage> stages = {
      {Kind::kBlock, 30, 1}, {Kind::kMultiPass, 3, 0}, {Kind::kWindow, 50, 4}};
  const auto cursor = MakeRowCursor(layout, {}, stages);
  // The window takes 128 on of 200 - 50, that is place 28 of the second pass, in its first block.
  EXPECT_EQ(cursor->Origin(1, 200), (OrderPlace{4, 0}));
  EXPECT_EQ(cursor->Origin(0, 0), (OrderPlace{0, 0}));
  // 192 on of 300 - 50: place 92 of the second pass, in its last block.
  EXPECT_EQ(cursor->Origin(0, 300), (OrderPlace{1, 90}));
}

TEST(RowCursorTest, AnIndexThatCannotBeReadIsAFailureAndNoOrder) {
  Random random(12);
  FakeLayout layout({{10, 20}, {30, 5}});
  for (const Kind kind : {Kind::kStripes, Kind::kWindow, Kind::kBlock}) {
    const auto cursor = MakeRowCursor(layout, {}, {{{kind, 16, 1}}});
    layout.set_broken(true);
    Status status = cursor->Seek(0, 20);
    Rows rows(10);
    std::size_t count = 0;
    if (status.ok()) status = cursor->Next(rows, &count);
    EXPECT_EQ(status.code(), StatusCode::kDamaged);
    layout.set_broken(false);
    ASSERT_TRUE(cursor->Seek(0, 0).ok());
    EXPECT_EQ(ReadOn(*cursor, random, 100).size(), 65U);
  }
}

TEST(KeyedPermutationTest, EveryNumberHasOnePlaceAndRangesAgreeWithSingleOnes) {
  std::vector<std::uint64_t> sizes = {4095, 4096, 4097, 8192, 8193, 60000, 65537};
  for (std::uint64_t size = 1; size <= 300; ++size) sizes.push_back(size);
  for (const std::uint64_t size : sizes) {
    const KeyedPermutation order(size, size * 77, 3, DrawPurpose::kGlobalOrder);
    Rows places(size);
    order.Range(0, places);
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(places[i], order.At(i)) << size;
    std::sort(places.begin(), places.end());
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(places[i], i) << size;
  }
}

TEST(KeyedPermutationTest, RangesOfHugeOrdersAgreeWithSingleNumbers) {
  std::mt19937_64 random(5);
  for (int bits = 17; bits <= 62; ++bits) {
    const std::uint64_t size = (std::uint64_t{1} << bits) - random() % 1000;
    const KeyedPermutation order(size, random(), 1, DrawPurpose::kGlobalOrder);
    for (int times = 0; times < 20; ++times) {
      Rows places(1 + random() % 200);
      // Some of them across the end of a row of the network's pairs.
      const std::uint64_t first = times == 0 ? size - places.size() : random() % (size - 200);
      order.Range(first, places);
      for (std::uint64_t i = 0; i < places.size(); ++i) {
        ASSERT_EQ(places[i], order.At(first + i)) << size << " " << first + i;
      }
    }
  }
}

TEST(RowFilesTest, EachRowIsOfTheFileThatASearchFinds) {
  std::mt19937_64 random(6);
  for (const std::size_t files : {1U, 2U, 7U, 300U, 20000U}) {
    for (const std::uint64_t most : {1U, 3U, 1000U, 10000000U}) {
      std::vector<std::uint64_t> counts;
      for (std::size_t file = 0; file < files; ++file) {
        // Files without rows, also at both ends, and some that are far larger than others.
        const std::uint64_t scale = random() % 16 == 0 ? 1000 : 1;
        counts.push_back(random() % 4 == 0 ? 0 : scale * (random() % (most + 1)));
      }
      const CountedFiles table(counts);
      const RowFiles found(table);
      const std::uint64_t rows = table.FirstRow(files);
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(rows, 20000); ++i) {
        const RowNumber row = rows <= 20000 ? i : random() % rows;
        ASSERT_EQ(found.FileOf(row), FileOfRow(table, row)) << files << " " << most;
      }
      for (std::size_t file = 0; file <= files; ++file) {
        ASSERT_EQ(found.FirstRow(file), table.FirstRow(file));
      }
      if (rows > 0) {
        EXPECT_EQ(found.FileOf(rows - 1), FileOfRow(table, rows - 1));
      }
    }
  }
}

TEST(KeyedPermutationTest, SmallOrdersComeAllAboutAsOften) {
  // 5 numbers are permuted in 120 ways: of 60,000 seeds each has 500, with a spread of 22.
  std::vector<int> seen(5 * 5 * 5 * 5 * 5);
  for (std::uint64_t seed = 0; seed < 60000; ++seed) {
    const KeyedPermutation order(5, seed, 0, DrawPurpose::kGlobalOrder);
    std::size_t code = 0;
    for (std::uint64_t i = 0; i < 5; ++i) code = code * 5 + order.At(i);
    ++seen[code];
  }
  double chi = 0;
  int ways = 0;
  for (const int count : seen) {
    if (count == 0) continue;
    ++ways;
    chi += (count - 500.0) * (count - 500.0) / 500.0;
  }
  EXPECT_EQ(ways, 120);
  EXPECT_LT(chi, 200);  // 119 are expected, 200 are beyond 5 deviations
}

}  // namespace
}  // namespace ringfeed
