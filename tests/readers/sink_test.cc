#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "readers/engine/batches/record_sink.h"
#include "readers/engine/files/file_table.h"
#include "readers/order/row_layout.h"
#include "ringfeed/parsers.h"
#include "tests/readers/plan_parts.h"
#include "tests/readers/plan_rows.h"

namespace ringfeed {
namespace {

/// One batch as it must come, planned slowly.
struct Wanted {
  std::uint64_t number = 0;
  std::vector<std::uint64_t> rows;
  PlanPosition end;
};

std::vector<Wanted> WantedBatches(const std::vector<Pass>& passes,
                                  const BatchSink::Options& options, const PlanPosition& start) {
  std::vector<Wanted> batches;
  const std::size_t slice_end = options.slice_end == 0 ? options.rows : options.slice_end;
  std::uint64_t number = 0;
  for (std::size_t p = 0; p < passes.size(); ++p) {
    const std::uint64_t pass = start.pass + p;
    const std::uint64_t before = p == 0 ? start.place : 0;
    for (std::size_t begin = 0; begin < passes[p].size(); begin += options.rows) {
      const std::size_t end = begin + options.rows;
      const bool whole = end <= passes[p].size();
      if (!whole && options.drop_remainder) continue;
      Wanted batch{
          number++, {}, whole ? PlanPosition{pass, before + end, 0} : PlanPosition{pass + 1, 0, 0}};
      for (std::size_t at = begin + options.slice_begin;
           at < std::min(begin + slice_end, passes[p].size()); ++at) {
        if (passes[p][at]) batch.rows.push_back(*passes[p][at]);
      }
      if (batch.number >= options.skip) batches.push_back(batch);
    }
  }
  return batches;
}

class SinkTest : public testing::Test {
 protected:
  static std::shared_ptr<const Parser> NumberParser() {
    return RowsParser({{"number", kInt64, {}}});
  }
  static void FeedAll(const std::vector<Pass>& passes, bool as_refs, PlanRows* rows,
                      PlanStage* sink, SinkConsumer* consumer) {
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      rows->Feed(passes[pass], pass, as_refs, sink);
      consumer->Work();
      sink->OnPassEnd();
    }
    sink->OnEnd(Status());
    consumer->Work();
  }
  std::vector<Got> Batches(const std::vector<Pass>& passes, BatchSink::Options options,
                           bool as_refs) {
    const auto parser = NumberParser();
    options.memory_bytes = std::size_t{4} << 20;
    PlanRows rows(passes.size());
    PlanParts parts(arena_);
    BatchSink sink(options, parser.get(), arena_, parts.of_sink());
    SinkConsumer consumer(&parts, &sink, parser.get());
    rows.set_parser(parser.get(), false);
    FeedAll(passes, as_refs, &rows, &sink, &consumer);
    EXPECT_TRUE(consumer.ended);
    EXPECT_EQ(rows.holds(), 0u) << "every hold was dropped";
    return consumer.got;
  }

  std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = std::size_t{64} << 20});
  std::mt19937_64 random_{20};
};

TEST_F(SinkTest, BatchesOfAnySliceHaveTheirRowsNumbersAndMarks) {
  for (int round = 0; round < 300; ++round) {
    const std::vector<Pass> passes = RandomPasses(random_, 300);
    BatchSink::Options options;
    options.rows = 1 + random_() % 40;
    options.drop_remainder = random_() % 2 == 0;
    if (random_() % 2 == 0) options.skip = random_() % 12;
    if (random_() % 2 == 0) {
      options.slice_begin = random_() % options.rows;
      options.slice_end =
          options.slice_begin + 1 + random_() % (options.rows - options.slice_begin);
    }
    const PlanPosition start{random_() % 3, random_() % 1000, 0};
    PlanClock clock(start.pass, start.place);
    options.clock = &clock;
    const auto wanted = WantedBatches(passes, options, start);
    const auto got = Batches(passes, options, random_() % 2 == 0);
    ASSERT_EQ(got.size(), wanted.size()) << round;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(got[i].rows, wanted[i].rows) << round;
      ASSERT_EQ(got[i].span.number, wanted[i].number) << round;
      ASSERT_EQ(got[i].span.end, wanted[i].end) << round << ": " << got[i].span.end.place;
    }
  }
}

/// Rows without Batch: what each place holds, and the mark behind each row.
void ExpectRows(const std::vector<Got>& got, const std::vector<Pass>& passes, std::uint64_t skip,
                const PlanPosition& start) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> wanted;  // place, number
  std::map<std::uint64_t, PlanPosition> behind;                 // by place
  std::uint64_t place = 0;
  for (std::size_t p = 0; p < passes.size(); ++p) {
    for (std::size_t at = 0; at < passes[p].size(); ++at, ++place) {
      if (passes[p][at] && place >= skip) wanted.emplace_back(place, *passes[p][at]);
      behind[place] = {start.pass + p, (p == 0 ? start.place : 0) + at + 1, 0};
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  for (const Got& one : got) {
    ASSERT_EQ(one.rows.size(), one.places.size());
    for (std::size_t row = 0; row < one.rows.size(); ++row) {
      found.emplace_back(one.places[row], one.rows[row]);
      PlanPosition mark = one.span.begin;
      mark.place += one.places[row] - one.span.first_place + 1;
      ASSERT_EQ(mark, behind[one.places[row]]);
    }
    const PlanPosition last = behind[one.next_place - 1];
    ASSERT_TRUE(one.span.end == last || one.span.end == (PlanPosition{last.pass + 1, 0, 0}));
  }
  ASSERT_EQ(found, wanted);
}

TEST_F(SinkTest, ThereAreAsManySlotsAsMemoryIsGrantedButThoseThatAreNeeded) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto parser = NumberParser();
  const auto slots = [&](std::size_t asked, std::size_t free_bytes) {
    BatchSink::Options options;
    options.rows = kMiB / sizeof(std::int64_t);
    options.slots = asked;
    options.memory_bytes = 64 * kMiB;
    PlanRows rows(1);
    PlanParts parts(arena_);
    const std::size_t others = arena_->unreserved_bytes() - free_bytes;
    EXPECT_TRUE(arena_->ReserveQuota(others));
    BatchSink sink(options, parser.get(), arena_, parts.of_sink());
    SinkConsumer consumer(&parts, &sink, parser.get());
    rows.set_parser(parser.get(), false);
    FeedAll({Pass(10, 7)}, false, &rows, &sink, &consumer);
    arena_->ReleaseQuota(others);
    return sink.pool().slot_limit();
  };
  EXPECT_EQ(slots(0, 32 * kMiB), 8u);
  EXPECT_EQ(slots(0, 4 * kMiB + 1024), 4u) << "a half of what was asked for";
  EXPECT_EQ(slots(0, 0), BatchSink::kLeastSlots);
  EXPECT_EQ(slots(5, 0), 5u) << "the user's word goes";
}

TEST_F(SinkTest, RowsWithoutBatchTellTheirPlaces) {
  for (int round = 0; round < 200; ++round) {
    const std::vector<Pass> passes = RandomPasses(random_, 3000);
    const bool as_refs = random_() % 2 == 0;
    const std::uint64_t skip = random_() % 2 == 0 ? 0 : random_() % 2000;
    const PlanPosition start{random_() % 3, random_() % 1000, 0};
    PlanClock clock(start.pass, start.place);
    if (round % 2 == 0) {
      BatchSink::Options options;
      options.rows = 32;
      options.close_at_block_end = true;
      options.skip = skip;
      options.clock = &clock;
      ExpectRows(Batches(passes, options, as_refs), passes, skip, start);
      continue;
    }
    PlanRows rows(1);
    PlanParts parts(arena_);
    RecordSink sink({skip, &clock}, parts.of_sink());
    SinkConsumer consumer(&parts, &sink);
    FeedAll(passes, as_refs, &rows, &sink, &consumer);
    EXPECT_EQ(rows.holds(), 0u);
    ExpectRows(consumer.got, passes, skip, start);
  }
}

TEST_F(SinkTest, AKeeperOfTheClockSaysWhereRowsStand) {
  PlanClock clock;
  clock.Keep();
  const auto parser = NumberParser();
  PlanRows rows(1);
  PlanParts parts(arena_);
  BatchSink::Options options;
  options.rows = 3;
  options.memory_bytes = std::size_t{4} << 20;
  options.clock = &clock;
  BatchSink sink(options, parser.get(), arena_, parts.of_sink());
  SinkConsumer consumer(&parts, &sink, parser.get());
  rows.set_parser(parser.get(), false);
  // A filter keeps places 1 and 2, then 5, 6, then 9 of a pass of 12, then of the next place 0.
  clock.AtPlace(0, 1);
  rows.Feed(Pass{1, 2}, 0, true, &sink);
  clock.AtPlace(0, 5);
  rows.Feed(Pass{5, 6}, 0, false, &sink);
  clock.AtPlace(0, 9);
  rows.Feed(Pass{9}, 0, true, &sink);
  clock.AtPlace(1, 0);
  sink.OnPassEnd();
  rows.Feed(Pass{100}, 1, true, &sink);
  sink.OnEnd(Status());
  consumer.Work();
  ASSERT_EQ(consumer.got.size(), 3u);
  EXPECT_EQ(consumer.got[0].span.end, (PlanPosition{0, 6, 0}));
  EXPECT_EQ(consumer.got[1].span.end, (PlanPosition{1, 0, 0}));
  EXPECT_EQ(consumer.got[2].span.end, (PlanPosition{1, 1, 0}));
}

/// A number and the bytes behind it; numbers that are a multiple of 11 fail once they are written.
class NumberAndTail final : public Parser {
 public:
  NumberAndTail() {
    AddField({"number", kInt64, {}});
    AddField({"tail", kUInt8, {-1}});
  }
  std::string name() const override { return "number and tail"; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Scratch>(); }
  std::size_t max_rows_per_write() const override { return 9; }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* /*scratch*/,
              std::vector<RowFailure>* /*failures*/) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      locations[2 * row] = {rows[row].data, 8, 1, 0};
      const auto bytes = static_cast<std::uint32_t>(rows[row].size - 8);
      locations[2 * row + 1] = {rows[row].data + 8, bytes, bytes, 0};
    }
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* /*scratch*/,
             std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::uint64_t number = 0;
      std::memcpy(&number, rows[row].data, 8);
      std::memcpy(targets[0].data + 8 * row, rows[row].data, 8);
      const FieldLocation& tail = locations[2 * row + 1];
      std::int64_t* const offsets = targets[1].offsets + row;
      std::copy_n(tail.data, tail.bytes, targets[1].data + offsets[0]);
      offsets[1] = offsets[0] + tail.units;
      if (number % 11 == 0) failures->push_back({row, Status(StatusCode::kDamaged, "eleven")});
    }
  }
};

/// What a batch holds, row by row: 0 for a row that is missing.
struct WantedRows {
  std::vector<std::uint64_t> rows;
  std::vector<std::uint64_t> numbers;
};

WantedRows WantedOf(const Pass& pass, std::size_t number_of_pass, std::size_t first,
                    const BatchSink::Options& options) {
  WantedRows wanted;
  for (std::size_t at = first + options.slice_begin; at < first + options.slice_end; ++at) {
    const bool there = at < pass.size() && pass[at] && *pass[at] % 11 != 0;
    if (!there && !options.pad) continue;
    wanted.rows.push_back(there ? *pass[at] : 0);
    wanted.numbers.push_back(there ? PackRecord({static_cast<std::uint32_t>(number_of_pass), at})
                                   : ~std::uint64_t{0});
  }
  return wanted;
}

void ExpectBatch(const Got& got, const WantedRows& wanted, bool pad) {
  ASSERT_EQ(got.rows, wanted.rows);
  ASSERT_EQ(got.numbers, wanted.numbers);
  const Tensor& tail = got.batch[1];
  ASSERT_EQ(tail.lod[0].size(), wanted.rows.size() + 1);
  for (std::size_t row = 0; row < wanted.rows.size(); ++row) {
    const std::int64_t begin = tail.lod[0][row];
    ASSERT_EQ(tail.lod[0][row + 1] - begin, static_cast<std::int64_t>(wanted.rows[row] % 7));
    for (std::int64_t at = begin; at < tail.lod[0][row + 1]; ++at) {
      ASSERT_EQ(tail.data[at], TailByte(wanted.rows[row]));
    }
  }
  ASSERT_EQ(got.batch.size(), pad ? 3u : 2u);
  if (!pad) return;
  ASSERT_EQ(got.batch[2].shape, (Shape{static_cast<std::int64_t>(wanted.rows.size())}));
  for (std::size_t row = 0; row < wanted.rows.size(); ++row) {
    ASSERT_EQ(got.batch[2].data[row], static_cast<std::byte>(wanted.rows[row] != 0));
  }
}

TEST_F(SinkTest, PaddedOrNotARowThatIsMissingMovesNoOther) {
  const NumberAndTail parser;
  for (int round = 0; round < 400; ++round) {
    const std::vector<Pass> passes = RandomPasses(random_, 300);
    BatchSink::Options options;
    options.rows = 1 + random_() % 60;
    options.slice_begin = random_() % 2 == 0 ? 0 : random_() % options.rows;
    options.slice_end = options.slice_begin + 1 + random_() % (options.rows - options.slice_begin);
    options.pad = random_() % 2 == 0;
    options.note_rows = true;
    options.on_damage = OnDamage::kSkip;
    options.memory_bytes = std::size_t{4} << 20;
    PlanRows rows(passes.size());
    PlanParts parts(arena_);
    BatchSink sink(options, &parser, arena_, parts.of_sink());
    SinkConsumer consumer(&parts, &sink, &parser);
    rows.set_parser(&parser, true);
    FeedAll(passes, random_() % 2 == 0, &rows, &sink, &consumer);
    ASSERT_EQ(rows.holds(), 0u);
    std::size_t batch = 0;
    for (std::size_t p = 0; p < passes.size(); ++p) {
      for (std::size_t first = 0; first < passes[p].size(); first += options.rows, ++batch) {
        ASSERT_LT(batch, consumer.got.size());
        ExpectBatch(consumer.got[batch], WantedOf(passes[p], p, first, options), options.pad);
        if (HasFatalFailure()) FAIL() << "round " << round << ", batch " << batch;
      }
    }
    ASSERT_EQ(consumer.got.size(), batch);
  }
}

TEST(RecordRangesTest, ConsecutiveRecordsOfAFileAreJoinedInTheirOrder) {
  const std::vector<std::uint64_t> numbers = {
      PackRecord({0, 7}),  PackRecord({0, 8}),    kNoRow,
      PackRecord({0, 9}),  PackRecord({1, 10}),   PackRecord({1, 9}),
      PackRecord({1, 10}), PackRecord({70000, 1})};
  const std::vector<RecordRange> wanted = {{0, 7, 3}, {1, 10, 1}, {1, 9, 2}, {70000, 1, 1}};
  EXPECT_EQ(RangesOf(numbers, UnpackRecord), wanted);
  EXPECT_TRUE(RangesOf({}, UnpackRecord).empty());
}

}  // namespace
}  // namespace ringfeed
