#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Ids = std::vector<std::uint64_t>;

struct Seen {
  Ids ids;
  std::vector<std::size_t> rows;  ///< of each batch
  ReadResult end = ReadResult::kRecord;
  Status status;
  std::string position;  ///< at the end
};

/// Wherever a failure arises: what is good and stands before it in the order is delivered, in a
/// short last batch, then it.
class OrderFailureTest : public PipelineTest {
 protected:
  enum class Cause { kFixedMap, kRaggedMap, kFilter, kDamage };
  static constexpr std::size_t kRecords = 200;  // of 40 bytes, in two files
  static constexpr std::size_t kBytes = 40;
  static constexpr std::size_t kBatch = 16;

  static std::uint64_t IdOf(const RecordSpan& record) {
    std::uint64_t id = ~std::uint64_t{0};
    if (record.size == kBytes && record.data[0] == std::byte{0x0a}) {  // MakeOfRecords
      std::memcpy(&id, record.data + kBytes - sizeof(id), sizeof(id));
    }
    return IdOfPayload(record.bytes()).value_or(id);
  }
  static void Refuse(const RecordSpan& record, std::uint64_t bad) {
    if (IdOf(record) == bad) throw std::runtime_error("this one");
  }

  static Reader Mapped(Reader reader, bool ragged, std::uint64_t bad) {
    std::vector<FieldSpec> fields = {{"id", kUInt64, {}}};
    if (ragged) fields.push_back({"tail", kUInt8, {-1}});
    return Map(std::move(reader), fields, [=](const MapInput& input, RowWriter& output) {
      Refuse(input.record, bad);
      const std::uint64_t id = IdOf(input.record);
      std::memcpy(output.Fixed(0).data(), &id, sizeof(id));
      if (ragged) output.Ragged(1, input.record.bytes().first(id % 5));
    });
  }

  void Flip(std::uint64_t record) const {
    const std::string& path = files_[record / (kRecords / 2)];
    std::FILE* const file = std::fopen(path.c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    const auto at = static_cast<long>(record % (kRecords / 2) * (kBytes + 16) + 12 + 20);
    std::fseek(file, at, SEEK_SET);
    const int byte = std::fgetc(file);
    std::fseek(file, at, SEEK_SET);
    std::fputc(byte ^ 0x40, file);
    std::fclose(file);
  }

  Reader Make(Cause cause, const ShuffleOptions& shuffle, BatchOptions batching, std::uint64_t bad,
              OnDamage on_damage = OnDamage::kFail) {
    OpenOptions options = Options();
    options.cycle = 1;
    options.stripe_bytes = 4096;
    options.on_damage = on_damage;
    options.format = files_.size() == 1 ? "ofrecord" : "";
    Reader reader = OpenFiles(files_, options);
    if (shuffle.mode != ShuffleMode::kNone) reader = Shuffle(reader, shuffle);
    if (cause == Cause::kFilter) {
      reader = Filter(reader, [bad](const RecordSpan& record) {
        Refuse(record, bad);
        return true;
      });
    }
    const std::uint64_t thrown =
        cause == Cause::kFilter || cause == Cause::kDamage ? kRecords : bad;
    batching.size = kBatch;
    return Batch(Mapped(reader, cause == Cause::kRaggedMap, thrown), batching);
  }
  Seen Read(Cause cause, const ShuffleOptions& shuffle, const BatchOptions& batching,
            std::uint64_t bad) {
    return ReadAll(Make(cause, shuffle, batching, bad));
  }

  static Seen ReadAll(Reader reader) {
    Seen seen;
    Instance batch;
    BatchOrigin origin;
    while ((seen.end = reader.TryReadNext(&batch, {.origin = &origin})) == ReadResult::kRecord) {
      EXPECT_EQ(reader.Position(origin), reader.Position());
      const auto ids = batch[0].Values<std::uint64_t>();
      const bool padded = batch.back().dtype == kUInt8 && batch.back().lod.empty();
      std::size_t rows = 0;
      for (std::size_t row = 0; row < ids.size(); ++row) {
        if (padded && batch.back().data[row] == std::byte{0}) continue;
        seen.ids.push_back(ids[row]);
        ++rows;
      }
      EXPECT_TRUE(!padded || ids.size() == kBatch);
      seen.rows.push_back(rows);
    }
    seen.status = reader.status();
    seen.position = reader.Position();
    return seen;
  }

  // From where a run failed another one fails at the same, and one that may go on delivers the
  // rest.
  void ExpectToComeAgain(const Seen& seen, Reader again) {
    again.Restore(seen.position);
    const Seen second = ReadAll(again);
    EXPECT_EQ(second.end, ReadResult::kFailed);
    EXPECT_EQ(second.status.place().record, seen.status.place().record);
    const std::size_t cut = seen.rows.empty() ? 0 : seen.rows.back() % kBatch;
    EXPECT_EQ(second.ids, Ids(seen.ids.end() - static_cast<std::ptrdiff_t>(cut), seen.ids.end()));
    EXPECT_EQ(second.position, seen.position);
  }
  void ExpectTheRest(const Seen& seen, Reader skipping, Ids order, std::uint64_t bad) {
    skipping.Restore(seen.position);
    const Seen rest = ReadAll(skipping);
    EXPECT_EQ(rest.end, ReadResult::kEnd);
    const std::size_t whole = seen.ids.size() / kBatch * kBatch;
    order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(whole));
    std::erase(order, bad);
    EXPECT_EQ(rest.ids, order);
  }

  /// An OFRecord file, of which record `bad` is none.
  std::string MakeOfRecords(std::uint64_t bad) const {
    std::vector<std::byte> bytes;
    for (std::uint64_t id = 0; id < kRecords; ++id) {
      const std::uint64_t length = kBytes;
      const auto header = std::as_bytes(std::span(&length, 1));
      std::vector<std::byte> payload(kBytes);
      payload[0] = std::byte(id == bad ? 0xff : 0x0a);  // one entry of its map
      payload[1] = std::byte{kBytes - 2};
      std::memcpy(payload.data() + kBytes - sizeof(id), &id, sizeof(id));
      bytes.insert(bytes.end(), header.begin(), header.end());
      bytes.insert(bytes.end(), payload.begin(), payload.end());
    }
    const std::string path = directory_.File("of_records");
    WriteBytes(path, bytes);
    return path;
  }

  // Whether some whole batches of the first and then the second are the order from its beginning.
  static bool GoesOn(const Ids& first, const Ids& second, const Ids& order) {
    for (std::size_t rows = 0; rows <= first.size(); rows += kBatch) {
      Ids both(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(rows));
      both.insert(both.end(), second.begin(), second.end());
      if (both.size() <= order.size() && std::equal(both.begin(), both.end(), order.begin())) {
        return true;
      }
    }
    return false;
  }

  void ExpectAlike(const ShuffleOptions& shuffle, const BatchOptions& batching) {
    const Ids order = Read(Cause::kFixedMap, shuffle, {}, kRecords).ids;
    ASSERT_EQ(order.size(), kRecords);
    for (const std::uint64_t bad : {order[0], order[75], order[192], order[193], order[199]}) {
      const Ids before(order.begin(), std::find(order.begin(), order.end(), bad));
      for (const Cause cause :
           {Cause::kFixedMap, Cause::kRaggedMap, Cause::kFilter, Cause::kDamage}) {
        SCOPED_TRACE("cause " + std::to_string(static_cast<int>(cause)) + ", place " +
                     std::to_string(before.size()));
        if (cause == Cause::kDamage) Flip(bad);
        const Seen seen = Read(cause, shuffle, batching, bad);
        ExpectToComeAgain(seen, Make(cause, shuffle, batching, bad));
        if (cause == Cause::kDamage && !batching.drop_remainder) {
          ExpectTheRest(seen, Make(cause, shuffle, batching, bad, OnDamage::kSkip), order, bad);
        }
        if (cause == Cause::kDamage) Flip(bad);
        EXPECT_EQ(seen.ids, before);
        EXPECT_EQ(seen.rows.size(), (before.size() + kBatch - 1) / kBatch);
        EXPECT_EQ(seen.end, ReadResult::kFailed);
        EXPECT_EQ(seen.status.place().record, static_cast<std::int64_t>(bad % (kRecords / 2)))
            << seen.status.ToString();
      }
    }
  }

  // The rest of a pass, shared by ranks: who has the bad row of it delivers what is good before it
  // and fails, also when it starts again; the others drop what they have of it.
  void ExpectRanksAlike(const ShuffleOptions& shuffle, std::size_t ranks) {
    const Ids order = Read(Cause::kFixedMap, shuffle, {}, kRecords).ids;
    ASSERT_EQ(order.size(), kRecords);
    const std::size_t share = kBatch / ranks;
    for (const std::size_t place : {192U, 193U, 195U, 196U, 199U}) {
      const std::uint64_t bad = order[place];
      const std::size_t owner = (place - kWhole) / share;
      for (const Cause cause : {Cause::kFixedMap, Cause::kRaggedMap, Cause::kDamage}) {
        SCOPED_TRACE("cause " + std::to_string(static_cast<int>(cause)) + ", place " +
                     std::to_string(place));
        if (cause == Cause::kDamage) Flip(bad);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          BatchOptions batching{.drop_remainder = true};
          batching.rank = {static_cast<int>(rank), static_cast<int>(ranks)};
          const std::size_t last = rank == owner ? place : kWhole;
          const Seen seen = ReadAll(Make(cause, shuffle, batching, bad));
          EXPECT_EQ(seen.ids, OfRank(order, last, rank, share));
          EXPECT_EQ(seen.end, rank == owner ? ReadResult::kFailed : ReadResult::kEnd);
          ExpectTheRestAgain(seen, Make(cause, shuffle, batching, bad));
        }
        if (cause == Cause::kDamage) Flip(bad);
      }
    }
  }
  // The rank's rows of the places up to `end`.
  static Ids OfRank(const Ids& order, std::size_t end, std::size_t rank, std::size_t share) {
    Ids ids;
    for (std::size_t place = 0; place < end; ++place) {
      if (place % kBatch / share == rank) ids.push_back(order[place]);
    }
    return ids;
  }
  // Behind the last whole batch.
  static void ExpectTheRestAgain(const Seen& seen, Reader again) {
    const std::size_t whole = kWhole / kBatch;
    again.SeekTo(whole);
    const Seen second = ReadAll(again);
    EXPECT_EQ(second.end, seen.end);
    EXPECT_EQ(second.rows.size(), seen.rows.size() - whole);
    EXPECT_EQ(second.position, seen.position);
  }

  static constexpr std::size_t kWhole = kRecords / kBatch * kBatch;  // places of whole batches

  std::vector<std::string> files_ = MakeFiles(2, kRecords / 2, kBytes, kBytes);
};

TEST_F(OrderFailureTest, InTheOrderOfTheFiles) {
  for (const bool drop : {false, true})
    ExpectAlike({.mode = ShuffleMode::kNone}, {.drop_remainder = drop});
}

TEST_F(OrderFailureTest, BehindAWindow) {
  for (const bool drop : {false, true})
    ExpectAlike({.window = 50, .seed = 3}, {.drop_remainder = drop});
}

TEST_F(OrderFailureTest, BehindAWindowOfMoreThanThereAre) {
  ExpectAlike({.window = 1000, .seed = 4}, {.drop_remainder = true});
}

// Behind what is no OFRecord nothing is framed where damage is a failure. What a shuffle holds then
// is delivered, but not in the order: more rows would have come among these.
TEST_F(OrderFailureTest, WhatAShuffleHeldWhereFramingEndsComesAgainInItsOrder) {
  constexpr std::uint64_t kBad = 70;
  for (const auto& [mode, size] :
       std::vector<std::pair<ShuffleMode, std::size_t>>{{ShuffleMode::kNone, 0},
                                                        {ShuffleMode::kBlock, 20},
                                                        {ShuffleMode::kBlock, 1000},
                                                        {ShuffleMode::kWindow, 4},
                                                        {ShuffleMode::kWindow, 40},
                                                        {ShuffleMode::kWindow, 1000}}) {
    ShuffleOptions shuffle;
    shuffle.mode = mode;
    (mode == ShuffleMode::kWindow ? shuffle.window : shuffle.block) = size;
    for (shuffle.seed = 0; shuffle.seed < 8; ++shuffle.seed) {
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(mode) << " of " << size << ", seed " << shuffle.seed);
      const auto make = [&] { return Make(Cause::kDamage, shuffle, {}, kRecords); };
      files_ = {MakeOfRecords(kRecords)};
      const Ids order = ReadAll(make()).ids;
      files_ = {MakeOfRecords(kBad)};
      const Seen failed = ReadAll(make());
      EXPECT_EQ(failed.end, ReadResult::kFailed);
      Reader again = make();
      again.Restore(failed.position);
      const Ids rest = ReadAll(again).ids;
    }
  }
}

TEST_F(OrderFailureTest, BehindBlocksOfRows) {
  for (const bool drop : {false, true})
    ExpectAlike({.block = 70, .seed = 5}, {.drop_remainder = drop});
}

TEST_F(OrderFailureTest, ByTheRowsNumbers) {
  ExpectAlike({.seed = 6, .mode = ShuffleMode::kGlobal}, {.drop_remainder = true});
  ExpectAlike({.window = 50, .seed = 6, .mode = ShuffleMode::kStripes}, {.drop_remainder = true});
}

TEST_F(OrderFailureTest, RanksThatDropARestFailAtTheirRowsOfIt) {
  for (const std::size_t ranks : {2U, 4U}) {
    ExpectRanksAlike({.mode = ShuffleMode::kNone}, ranks);
    ExpectRanksAlike({.window = 50, .seed = 3}, ranks);
    ExpectRanksAlike({.seed = 6, .mode = ShuffleMode::kGlobal}, ranks);
  }
}

TEST_F(OrderFailureTest, ARestOfMoreThanARanksShareIsDroppedWhereNothingFails) {
  for (const int rank : {0, 1, 2}) {
    BatchOptions batching{.size = 300, .drop_remainder = true};
    batching.rank = {rank, 3};
    Reader reader = Batch(Mapped(OpenFiles(files_, Options()), false, kRecords), batching);
    const Seen seen = ReadAll(reader);
    EXPECT_EQ(seen.end, ReadResult::kEnd);
    EXPECT_TRUE(seen.ids.empty());
    EXPECT_EQ(reader.Stats().dropped_records, rank < 2 ? 100u : 0u);
  }
}

TEST_F(OrderFailureTest, PassesWithoutEndWhoseWholeBatchesAreDamagedFail) {
  // Of one whole batch and a rest nothing but the rest is good.
  for (std::uint64_t record = 0; record < 150; ++record) Flip(record);
  for (const int ranks : {1, 2}) {
    OpenOptions options = Options();
    options.cycle = 1;
    options.on_damage = OnDamage::kSkip;
    BatchOptions batching{.size = 150, .drop_remainder = true, .empty_batches = false};
    batching.rank = {0, ranks};
    const Seen seen =
        ReadAll(MultiPass(Batch(Mapped(OpenFiles(files_, options), false, kRecords), batching), 0));
    EXPECT_EQ(seen.end, ReadResult::kFailed);
    EXPECT_TRUE(seen.ids.empty());
    EXPECT_EQ(seen.status.code(), StatusCode::kInvalidArgument) << seen.status.ToString();
  }
}

TEST_F(OrderFailureTest, APaddedBatchKeepsItsNumberOfRows) {
  ExpectAlike({.mode = ShuffleMode::kNone}, {.pad = true});
  ExpectAlike({.window = 50}, {.pad = true});
}

TEST_F(OrderFailureTest, WhatIsBegunOfGroupsIsDeliveredAlsoWhereRestsAreDropped) {
  for (const bool drop : {false, true}) {
    OpenOptions options = Options();
    options.cycle = 1;
    const auto group = [](const RecordSpan& record) {
      Refuse(record, 150);
      return static_cast<std::int64_t>(IdOf(record) % 3);
    };
    const auto make = [&] {
      return GroupBatch(Mapped(OpenFiles(files_, options), false, kRecords),
                        {.size = 16, .group_of = group, .segment = 120, .drop_remainder = drop});
    };
    const Seen seen = ReadAll(make());
    EXPECT_EQ(seen.end, ReadResult::kFailed);
    // Of each segment's three groups of 40 rows eight are dropped, but not of what is begun.
    EXPECT_EQ(seen.ids.size(), drop ? 150u - 24u : 150u);
    EXPECT_TRUE(drop || Sorted(seen.ids) == Numbers(150));
    // Three groups of ten were begun: no position lies behind the first of them.
    Reader again = make();
    again.Restore(seen.position);
    const Seen second = ReadAll(again);
    EXPECT_EQ(second.end, ReadResult::kFailed);
    EXPECT_EQ(second.rows, (std::vector<std::size_t>{10, 10, 10}));
    EXPECT_EQ(second.ids, Ids(seen.ids.end() - 30, seen.ids.end()));
    EXPECT_EQ(second.position, seen.position);
  }
}

TEST_F(OrderFailureTest, RestsThatAreDroppedCountOnceAndOnlyWhereNothingFails) {
  OpenOptions options = Options();
  Reader good = MultiPass(Batch(Mapped(OpenFiles(files_, options), false, kRecords),
                                {.size = 150, .drop_remainder = true}),
                          3);
  const Seen seen = ReadAll(good);
  EXPECT_EQ(seen.rows, (std::vector<std::size_t>{150, 150, 150}));
  EXPECT_EQ(good.Stats().dropped_records, 150u);
}

}  // namespace
}  // namespace ringfeed
