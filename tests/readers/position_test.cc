#include "readers/order/position.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "readers/chain/reader_access.h"
#include "ringfeed/compat/data_reader.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorated_reader.h"
#include "ringfeed/sequences.h"
#include "ringfeed/tensor.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Chain = std::function<Reader(const std::vector<std::string>&, const OpenOptions&)>;

/// All bytes of a batch, shapes too.
std::string Contents(const Instance& batch) {
  std::string text;
  for (const Tensor& tensor : batch) {
    text += ShapeToString(tensor.shape);
    text.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
    for (const auto& level : tensor.lod) {
      text.append(reinterpret_cast<const char*>(level.data()), level.size_bytes());
    }
  }
  return text;
}

/// What a reader delivers to its end, and its position in front of each delivery and at the end.
struct Delivered {
  std::vector<std::string> batches;
  std::vector<std::string> positions;
};

Delivered ReadAll(Reader reader, std::size_t most = ~std::size_t{0}) {
  Delivered all;
  Instance batch;
  all.positions.push_back(reader.Position());
  ReadResult result = ReadResult::kEnd;
  while (all.batches.size() < most &&
         (result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
    all.batches.push_back(Contents(batch));
    all.positions.push_back(reader.Position());
  }
  EXPECT_NE(result, ReadResult::kFailed) << reader.status().ToString();
  return all;
}

std::vector<std::string> Tail(const std::vector<std::string>& all, std::size_t from) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.end()};
}

struct Case {
  std::string name;
  Chain chain;
};

Reader Raw(const std::vector<std::string>& files, const OpenOptions& options) {
  return Parse(OpenFiles(files, options), RawParser());
}

bool IsOfThree(const RecordSpan& record) { return record.size % 3 != 1; }

std::vector<Case> BatchCases() {
  const auto open = Raw;
  return {
      {"in order", [=](auto& f, auto& o) { return Batch(open(f, o), {.size = 7}); }},
      {"passes apart",
       [=](auto& f, auto& o) { return MultiPass(Batch(open(f, o), {.size = 7}), 3); }},
      {"passes joined",
       [=](auto& f, auto& o) { return Batch(MultiPass(open(f, o), 3), {.size = 7}); }},
      {"rest dropped",
       [=](auto& f, auto& o) {
         return MultiPass(Batch(open(f, o), {.size = 7, .drop_remainder = true}), 3);
       }},
      {"window",
       [=](auto& f, auto& o) {
         return MultiPass(Batch(Shuffle(open(f, o), {.window = 50, .seed = 3}), {.size = 7}), 2);
       }},
      {"window over joined passes",
       [=](auto& f, auto& o) {
         return Batch(Shuffle(MultiPass(open(f, o), 3), {.window = 50, .seed = 3}), {.size = 7});
       }},
      {"two shuffles",
       [=](auto& f, auto& o) {
         return MultiPass(
             Batch(Shuffle(Shuffle(open(f, o), {.window = 30}), {.block = 20}), {.size = 7}), 2);
       }},
      {"block",
       [=](auto& f, auto& o) {
         return MultiPass(Batch(Shuffle(open(f, o), {.block = 40, .seed = 9}), {.size = 7}), 2);
       }},
  };
}

std::vector<Case> OtherCases() {
  const auto open = Raw;
  return {
      {"blocks",
       [=](auto& f, auto& o) {
         return MultiPass(
             Batch(Shuffle(open(f, o), {.window = 20, .seed = 5, .mode = ShuffleMode::kStripes}),
                   {.size = 7}),
             2);
       }},
      {"global",
       [=](auto& f, auto& o) {
         return MultiPass(
             Batch(Shuffle(open(f, o), {.seed = 5, .mode = ShuffleMode::kGlobal}), {.size = 7}), 2);
       }},
      {"padded",
       [=](auto& f, auto& o) { return MultiPass(Batch(open(f, o), {.size = 7, .pad = true}), 2); }},
      {"rows", [=](auto& f, auto& o) { return Shuffle(open(f, o), {.window = 9}); }},
      {"records", [=](auto& f, auto& o) { return Shuffle(OpenFiles(f, o), {.window = 9}); }},
      {"groups",
       [=](auto& f, auto& o) {
         const auto group = [](const RecordSpan& record) {
           return static_cast<std::int64_t>(record.size % 3);
         };
         return MultiPass(GroupBatch(open(f, o), {.size = 7, .group_of = group, .segment = 60}), 2);
       }},
      {"filtered",
       [=](auto& f, auto& o) {
         const Reader some = Filter(OpenFiles(f, o), IsOfThree);
         return MultiPass(Batch(Parse(some, RawParser()), {.size = 5}), 2);
       }},
      {"filtered rows",
       [=](auto& f, auto& o) {
         return Filter(Shuffle(Parse(OpenFiles(f, o), RawParser()), {.window = 9}), IsOfThree);
       }},
      {"filtered records", [=](auto& f, auto& o) { return Filter(OpenFiles(f, o), IsOfThree); }},
      {"files shuffled",
       [=](auto& f, OpenOptions o) {
         o.files.shuffle = true;
         o.files.seed = 4;
         return MultiPass(Batch(open(f, o), {.size = 7}), 3);
       }},
      {"a later epoch",
       [=](auto& f, OpenOptions o) {
         o.first_epoch = 5;
         return MultiPass(Batch(Shuffle(open(f, o), {.window = 50}), {.size = 7}), 2);
       }},
  };
}

std::vector<Case> Cases() {
  std::vector<Case> cases = BatchCases();
  for (Case& each : OtherCases()) cases.push_back(std::move(each));
  return cases;
}

class PositionTest : public PipelineTest {
 protected:
  OpenOptions SmallStripes() const {
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    options.cycle = 3;
    return options;
  }
};

TEST_F(PositionTest, EveryChainGoesOnFromEveryPositionAsIfItHadNeverStopped) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    const Delivered all = ReadAll(each.chain(files, SmallStripes()));
    ASSERT_GT(all.batches.size(), 20u);
    for (std::size_t k = 0; k < all.positions.size(); k += 1 + k / (kSanitized ? 1 : 3)) {
      Reader again = each.chain(files, SmallStripes());
      again.Restore(all.positions[k]);
      const Delivered rest = ReadAll(again);
      ASSERT_EQ(rest.batches, Tail(all.batches, k)) << "from batch " << k;
      ASSERT_EQ(rest.positions, Tail(all.positions, k)) << "however a chain came to a place";
      EXPECT_NE(again.Stats().restored.find("by index"), std::string::npos);
    }
  }
}

TEST_F(PositionTest, WithoutAnIndexTheSameIsReachedByReading) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  OpenOptions options = SmallStripes();
  options.index = IndexUse::kNever;
  for (const Case& each : Cases()) {
    if (each.name == "blocks" || each.name == "global") continue;
    SCOPED_TRACE(each.name);
    const Delivered all = ReadAll(each.chain(files, options));
    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, std::size_t{17}, all.batches.size()}) {
      Reader again = each.chain(files, options);
      again.Restore(all.positions[k]);
      const Delivered rest = ReadAll(again);
      ASSERT_EQ(rest.batches, Tail(all.batches, k)) << "from batch " << k;
      ASSERT_EQ(rest.positions, Tail(all.positions, k)) << "however a chain came to a place";
      EXPECT_NE(again.Stats().restored.find("by reading"), std::string::npos);
    }
  }
}

TEST_F(PositionTest, RestoreWorksInTheMiddleOfReadingToo) {
  const std::vector<std::string> files = MakeFiles(3, 80, 8, 600);
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    Reader reader = each.chain(files, SmallStripes());
    const Delivered first = ReadAll(reader, 9);
    reader.Restore(first.positions[4]);
    const Delivered again = ReadAll(reader, 5);
    EXPECT_EQ(again.batches, Tail(first.batches, 4));
    reader.ReInit();
    EXPECT_EQ(ReadAll(reader, 9).batches, first.batches);
  }
}

TEST_F(PositionTest, ALookThatBeginsWhileAChainIsSentElsewhereDoesNotSendItBack) {
  Reader reader = Batch(OpenFiles(MakeFiles(2, 40, 8, 100), SmallStripes()), {.size = 10});
  const auto node = ReaderAccess::NodeOf(reader);
  node->Session()->AimAt(5);  // the first half of SeekTo
  EXPECT_TRUE(reader.HasNext());
  node->GoToAim();  // the second one
  BatchOrigin origin;
  Instance batch;
  ASSERT_EQ(reader.TryReadNext(&batch, {.origin = &origin}), ReadResult::kRecord);
  EXPECT_EQ(origin.batch, 5u);
}

TEST_F(PositionTest, APositionIsShortWhateverTheDataAndPrefetchedBatchesDoNotCount) {
  const std::vector<std::string> files = MakeFiles(70, 10, 8, 300);
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    Reader reader = each.chain(files, SmallStripes());
    (void)reader.HasNext();
    (void)reader.NextPass();
    ChainPosition position;
    ASSERT_TRUE(ParsePosition(reader.Position(), &position).ok());
    EXPECT_EQ(position.batch, 0u);
    (void)reader.ReadNext();
    (void)reader.HasNext();
    ASSERT_TRUE(ParsePosition(reader.Position(), &position).ok());
    EXPECT_EQ(position.batch, 1u);
    EXPECT_LE(reader.Position().size(), 1024u);
    EXPECT_EQ(reader.Position().find('\n'), std::string::npos);
  }
}

TEST_F(PositionTest, SeekToAndSkipBatchesAreRestoreByNumber) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    const Delivered all = ReadAll(each.chain(files, SmallStripes()));
    for (const std::size_t k : {std::size_t{0}, std::size_t{3}, std::size_t{11}, all.batches.size(),
                                all.batches.size() + 5}) {
      Reader reader = each.chain(files, SmallStripes());
      reader.SeekTo(k);
      const Delivered rest = ReadAll(reader);
      ASSERT_EQ(rest.batches, Tail(all.batches, std::min(k, all.batches.size())));
      if (k <= all.batches.size()) {
        ASSERT_EQ(rest.positions, Tail(all.positions, k)) << "however a chain came to a place";
        EXPECT_EQ(reader.StartPosition(), all.positions[k]);
      }
    }
    Reader reader = each.chain(files, SmallStripes());
    ReadAll(reader, 2);
    reader.SkipBatches(5);
    const Delivered three = ReadAll(reader, 3);
    EXPECT_EQ(three.batches,
              std::vector<std::string>(all.batches.begin() + 7, all.batches.begin() + 10));
    EXPECT_EQ(three.positions,
              std::vector<std::string>(all.positions.begin() + 7, all.positions.begin() + 11));
    reader.SkipBatches(1);
    reader.SkipBatches(1);
    EXPECT_EQ(reader.Position(), all.positions[12]);
  }
}

TEST_F(PositionTest, WhatIsBeyondTheEndIsTheEndHoweverFar) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    for (const std::uint64_t batches : {kMost, kMost - 2, kMost / 2, kMost / 7 + 1}) {
      Reader reader = each.chain(files, SmallStripes());
      ReadAll(reader, 3);
      reader.SkipBatches(batches);
      EXPECT_EQ(ReadAll(reader).batches, std::vector<std::string>{}) << batches;
      reader.SkipBatches(batches);
      EXPECT_EQ(ReadAll(reader).batches, std::vector<std::string>{}) << batches << " again";
      reader.SeekTo(batches);
      EXPECT_EQ(ReadAll(reader).batches, std::vector<std::string>{}) << "sought to " << batches;
    }
  }
}

TEST_F(PositionTest, AChainSentBeyondItsEndStandsAtTheEnd) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  for (const bool drop : {false, true}) {
    SCOPED_TRACE(drop);
    const auto chain = [&] {
      const Reader rows = Shuffle(Raw(files, SmallStripes()), {.mode = ShuffleMode::kGlobal});
      return MultiPass(Batch(rows, {.size = 7, .drop_remainder = drop}), 3);
    };
    const std::string end = ReadAll(chain()).positions.back();
    Reader reader = chain();
    reader.SeekTo(1'000'000);
    EXPECT_EQ(ReadAll(reader).batches.size(), 0U);
    EXPECT_EQ(reader.Position(), end);
    reader.SkipBatches(5);
    EXPECT_EQ(reader.Position(), end);
    Reader again = chain();
    again.Restore(end);
    EXPECT_EQ(ReadAll(again).batches.size(), 0U);
  }
}

TEST_F(PositionTest, APositionBehindMoreBatchesThanThereAreIsRefused) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  const auto chain = [&](std::uint64_t passes) {
    const Reader rows = Shuffle(Raw(files, SmallStripes()), {.mode = ShuffleMode::kGlobal});
    return MultiPass(Batch(rows, {.size = 7}), passes);
  };
  const std::string end = ReadAll(chain(2)).positions.back();
  ChainPosition position;
  ASSERT_TRUE(ParsePosition(end, &position).ok());
  for (const std::uint64_t more :
       {std::uint64_t{1}, std::uint64_t{1} << 40, std::uint64_t{1} << 63}) {
    ChainPosition beyond = position;
    beyond.batch += more;
    EXPECT_THROW(chain(2).Restore(beyond.ToJson()), Error) << more;
    EXPECT_THROW(chain(2).CheckPosition(beyond.ToJson()), Error) << more;
  }
  EXPECT_NO_THROW(chain(0).Restore(end)) << "there are always more";
  position.batch += 1'000'000;
  EXPECT_NO_THROW(chain(0).Restore(position.ToJson()));
}

TEST_F(PositionTest, NumbersThatNoChainWroteEndOrAreRefused) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    ChainPosition position;
    ASSERT_TRUE(ParsePosition(each.chain(files, SmallStripes()).Position(), &position).ok());
    for (const std::uint64_t number : {kMost, kMost - 1, kMost / 2 + 1, std::uint64_t{1} << 40}) {
      for (const std::size_t place : {0U, 1U, 2U}) {
        position.batch = number;
        position.mark =
            PlanPosition{place == 0 ? number : 0, place == 1 ? number : 0, place == 2 ? number : 0};
        Reader reader = each.chain(files, SmallStripes());
        try {
          reader.Restore(position.ToJson());
          Instance batch;
          while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
        }
      }
    }
  }
}

TEST_F(PositionTest, WhoAsksWhereItWasSoughtToReadsUpToThereAndMayCloseMeanwhile) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  std::atomic<bool> waits = false;
  std::atomic<bool> goes_on = false;
  Reader reader = Batch(Parse(Filter(OpenFiles(files, SmallStripes()),
                                     [&](const RecordSpan&) {
                                       waits = true;
                                       while (!goes_on) std::this_thread::yield();
                                       return true;
                                     }),
                              RawParser()),
                        {.size = 5});
  reader.SeekTo(20);
  std::string position;
  std::thread asker([&] { position = reader.Position(); });
  while (!waits) std::this_thread::yield();
  std::thread closer([&] { reader.Close(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  goes_on = true;
  closer.join();
  asker.join();
  ChainPosition read;
  ASSERT_TRUE(ParsePosition(position, &read).ok()) << position;
  EXPECT_EQ(read.batch, 20u);
}

TEST_F(PositionTest, WhereItWasSoughtToIsWaitedForUntilADeadline) {
  const std::vector<std::string> files = MakeFiles(4, 60, 8, 900);
  std::atomic<bool> goes_on = false;
  Reader reader = Batch(Parse(Filter(OpenFiles(files, SmallStripes()),
                                     [&](const RecordSpan&) {
                                       while (!goes_on) std::this_thread::yield();
                                       return true;
                                     }),
                              RawParser()),
                        {.size = 5});
  reader.SeekTo(20);
  EXPECT_FALSE(reader.AwaitPosition(Deadline{}));
  EXPECT_FALSE(reader.AwaitPosition(DeadlineAfter(std::chrono::milliseconds(20))));
  goes_on = true;
  EXPECT_TRUE(reader.AwaitPosition(kNoDeadline));
  EXPECT_TRUE(reader.AwaitPosition(Deadline{}));
  ChainPosition read;
  ASSERT_TRUE(ParsePosition(reader.Position(), &read).ok());
  EXPECT_EQ(read.batch, 20u);
}

// In front of it: the place behind the last whole batch of a pass is not that of the next one.
TEST_F(PositionTest, WhereARestIsDroppedThePlaceIsThatBehindTheBatchSoughtTo) {
  const std::vector<std::string> files = MakeFiles(1, 22, 8, 90);
  constexpr int kRecordsOfPass = 22;
  std::atomic<int> seen = 0;
  const auto chain = [&](bool slow) {
    Reader records = Filter(OpenFiles(files, SmallStripes()), [&, slow](const RecordSpan&) {
      // The second pass comes later, so that who asks too early sees what stands behind the first.
      if (slow && ++seen > kRecordsOfPass)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return true;
    });
    return MultiPass(Batch(Parse(records, RawParser()), {.size = 10, .drop_remainder = true}), 3);
  };
  Reader reader = chain(true);
  reader.SeekTo(3);
  while (!reader.AwaitPosition(DeadlineAfter(std::chrono::milliseconds(2)))) {
  }
  const std::string position = reader.Position();
  EXPECT_EQ(position, ReadAll(chain(false), 3).positions.back());
  Reader restored = chain(false);
  restored.Restore(position);
  EXPECT_EQ(ReadAll(restored).batches.size(), 3u);
}

// Whether records are read in the order of files or by their numbers.
TEST_F(PositionTest, JoinedPassesAreToldApart) {
  const std::vector<std::string> files = MakeFiles(2, 15, 40, 40);
  const auto passes = [&](bool by_number, bool batched, std::uint64_t start, int ranks,
                          int rank = 0) {
    OpenOptions options = SmallStripes();
    options.cycle = 1;
    Reader records = OpenFiles(files, options);
    const ShuffleOptions none{.mode = ShuffleMode::kNone};
    if (by_number && ranks == 1) records = Shuffle(records, none);
    Reader rows = MultiPass(records, 4);
    BatchOptions batching{.size = 4};
    batching.rank = {rank, ranks};
    Reader reader = batched ? Batch(Parse(rows, RawParser()), batching) : rows;
    if (start > 0) reader.SeekTo(start);
    std::vector<std::uint64_t> found;
    Instance instance;
    BatchOrigin origin;
    while (true) {
      const std::optional<std::uint64_t> next = reader.NextPass();
      if (reader.TryReadNext(&instance, {.origin = &origin}) != ReadResult::kRecord) break;
      EXPECT_EQ(next, origin.pass);
      found.push_back(origin.pass);
    }
    return found;
  };
  for (const bool batched : {false, true}) {
    const std::vector<std::uint64_t> wanted = passes(false, batched, 0, 1);
    EXPECT_EQ(wanted.size(), batched ? 30u : 120u);
    EXPECT_EQ(wanted.back(), 3u);
    EXPECT_EQ(passes(true, batched, 0, 1), wanted);
    const std::vector<std::uint64_t> later(wanted.begin() + 9, wanted.end());
    EXPECT_EQ(passes(true, batched, 9, 1), later);
    if (batched) {
      EXPECT_EQ(passes(true, true, 0, 2), wanted);
      EXPECT_EQ(passes(true, true, 0, 2, 1), wanted);
    }
  }
}

Reader Passed(const Reader& input) {
  return Preprocess(input, input.slots(), [](const Instance& from, Instance* to) {
    for (const Tensor& tensor : from) to->push_back(tensor);
  });
}

struct Numbers : RandomAccessDataset {
  std::uint64_t Size() const override { return 12; }
  void At(std::uint64_t index, std::string* sample) override {
    const std::vector<std::byte> payload = RecordPayload(index, 16);
    sample->assign(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
};

/// Six batches of two passes over a data set that is shuffled anew in each.
Reader ShuffledNumbers(bool decorated) {
  Reader records = FromDataset(std::make_unique<DistributedTrainingDataset>(
      std::make_unique<Numbers>(), DistributedOptions{.shuffle = true, .seed = 7}));
  Reader reader = MultiPass(Batch(Parse(records, RawParser()), {.size = 5}), 2);
  return decorated ? Passed(reader) : reader;
}

// Passes of a data set that is shuffled anew in each: a position counts from one of them.
TEST_F(PositionTest, PassesOfADataSetAreReadAgainAsTheyWere) {
  for (const bool decorated : {false, true}) {
    const auto chain = [&] { return ShuffledNumbers(decorated); };
    for (const int rewinds : {0, 1, 3}) {
      Reader whole = chain();
      for (int i = 0; i < rewinds; ++i) {
        ReadAll(whole, 1);
        whole.ReInit();
      }
      const auto wanted = ReadAll(whole).batches;
      ASSERT_EQ(wanted.size(), 6u);
      Reader skipping = chain();
      for (int i = 0; i < rewinds; ++i) {
        ReadAll(skipping, 1);
        skipping.ReInit();
      }
      ReadAll(skipping, 2);
      skipping.SkipBatches(2);
      EXPECT_EQ(ReadAll(skipping).batches, std::vector(wanted.begin() + 4, wanted.end()));
      for (std::size_t at = 0; at < wanted.size(); ++at) {
        const std::vector rest(wanted.begin() + static_cast<std::ptrdiff_t>(at), wanted.end());
        whole.SeekTo(at);
        const std::string position = whole.Position();
        EXPECT_EQ(ReadAll(whole).batches, rest) << rewinds << " " << at;
        whole.Restore(position);
        EXPECT_EQ(ReadAll(whole).batches, rest) << rewinds << " " << at;
        Reader other = chain();
        other.Restore(position);
        EXPECT_EQ(other.Position(), position);
        EXPECT_EQ(ReadAll(other).batches, rest) << rewinds << " " << at;
        other.SeekTo(0);
        EXPECT_EQ(ReadAll(other, 1).batches.front(), wanted.front());
        if (at == 0) continue;
        other.SkipBatches(at - 1);
        EXPECT_EQ(ReadAll(other).batches, rest) << rewinds << " " << at;
      }
    }
  }
}

// Who reads ahead of its use, as a feed does, may ask when the chain was started again meanwhile.
TEST_F(PositionTest, ABatchHasItsPositionAlsoAfterItsRunHasEnded) {
  const std::vector<std::string> files = MakeFiles(2, 60, 8, 100);
  const auto mix = [&](double weight) {
    const Reader first = OpenFiles({files[0]}, SmallStripes());
    const Reader second = OpenFiles({files[1]}, SmallStripes());
    return MultiPass(Batches(Mix({{first, 1, 1}, {second, weight, 0}}, SmallStripes()), 4), 3);
  };
  const std::string elsewhere = ReadAll(mix(1), 9).positions.back();
  struct Again {
    Reader reader;
    std::function<void(Reader*)> start;
  };
  const auto start = [](Reader* reader) { reader->ReInit(); };
  const auto restore = [&](Reader* reader) { reader->Restore(elsewhere); };
  for (Again each : {Again{ShuffledNumbers(false), start}, Again{ShuffledNumbers(true), start},
                     Again{mix(3), start}, Again{mix(3), restore}}) {
    std::vector<std::pair<BatchOrigin, std::string>> read;
    Instance instance;
    for (int runs = 0; runs < 2; ++runs) {
      for (int batches = 0; batches < 4; ++batches) {
        BatchOrigin origin;
        ASSERT_EQ(each.reader.TryReadNext(&instance, {.origin = &origin}), ReadResult::kRecord);
        read.emplace_back(origin, each.reader.Position());
      }
      each.start(&each.reader);
      for (const auto& [origin, position] : read) {
        EXPECT_EQ(each.reader.Position(origin), position);
      }
    }
  }
}

// A rank that gets no record in one pass gets some in another.
TEST_F(PositionTest, RanksWithOtherFilesInEachPassReadAllPassesByNumber) {
  std::vector<std::string> files = MakeFiles(1, 4, 8, 90);
  files.push_back(directory_.File("empty"));
  std::ofstream(files.back()).close();
  for (const std::uint32_t passes : {8u, 0u}) {
    for (const bool global : {false, true}) {
      const auto chain = [&](std::size_t rank) {
        OpenOptions options = SmallStripes();
        options.format = "tfrecord";
        options.files = {.shuffle = true, .seed = 3, .rank = rank, .ranks = 2};
        Reader records = OpenFiles(files, options);
        if (global) records = Shuffle(records, {.seed = 5, .mode = ShuffleMode::kGlobal});
        return MultiPass(Batch(Parse(records, RawParser()), {.size = 4}), passes);
      };
      std::size_t batches = 0;
      for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
        Reader reader = chain(rank);
        reader.SeekTo(0);
        const std::size_t some = ReadAll(reader, passes == 0 ? 4 : ~std::size_t{0}).batches.size();
        EXPECT_EQ(ReadAll(chain(rank), passes == 0 ? 4 : ~std::size_t{0}).batches.size(), some);
        batches += some;
      }
      EXPECT_EQ(batches, 8u) << "passes " << passes << ", global " << global;
    }
  }
}

TEST_F(PositionTest, ADataSetThatChangedIsRefusedWithWhatChanged) {
  const std::vector<std::string> files = MakeFiles(3, 60, 8, 900);
  const Chain chain = Cases().front().chain;
  const std::string position = ReadAll(chain(files, SmallStripes()), 3).positions.back();
  const auto refusal = [&](const std::vector<std::string>& others) -> std::string {
    Reader reader = chain(others, SmallStripes());
    try {
      reader.Restore(position);
    } catch (const Error& error) {
      return error.status().message();
    }
    return "taken";
  };
  EXPECT_EQ(refusal(files), "taken");
  EXPECT_NE(refusal({files[0], files[1]}).find("files: 2, were 3"), std::string::npos);
  EXPECT_NE(refusal({files[1], files[0], files[2]}).find("order"), std::string::npos);
  {
    std::fstream file(files[1], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5);
    file.put('\x7f');
  }
  const std::string changed = refusal(files);
  EXPECT_NE(changed.find("contents"), std::string::npos) << changed;
  EXPECT_NE(changed.find("number 1"), std::string::npos) << changed;
}

// They are in no index: what was read is read again.
TEST_F(PositionTest, CompressedAndMissingFilesAreRestoredUnderBothPolicies) {
  std::vector<std::string> files = MakeFiles(3, 60, 8, 900);
  const std::string text = ReadBytes(files[1]);
  WriteBytes(files[1] + ".gz", Compress(std::as_bytes(std::span(text)), {}));
  files[1] += ".gz";
  for (const bool some_are_missing : {false, true}) {
    if (some_are_missing) files.insert(files.begin() + 1, directory_.File("gone.tfrecord"));
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      if (some_are_missing && on_damage == OnDamage::kFail) continue;
      OpenOptions options = SmallStripes();
      options.on_damage = on_damage;
      const auto open = [&] { return Batches(OpenFiles(files, options), 7); };
      Reader same = open();
      const Delivered all = ReadAll(same);
      ASSERT_EQ(all.batches.size(), 26u);
      for (const std::size_t at : {0u, 1u, 13u, 26u}) {
        same.Restore(all.positions[at]);
        EXPECT_EQ(ReadAll(same).batches, Tail(all.batches, at));
        Reader other = open();
        other.Restore(all.positions[at]);
        EXPECT_EQ(ReadAll(other).batches, Tail(all.batches, at));
      }
    }
  }
}

TEST_F(PositionTest, AnotherOrderIsRefusedAndWhatCannotComeAgainHasNoPosition) {
  const std::vector<std::string> files = MakeFiles(3, 60, 8, 900);
  Reader one = Batches(Shuffle(OpenFiles(files, Options()), {.window = 10}), 4);
  (void)one.ReadNext();
  Reader other = Batches(Shuffle(OpenFiles(files, Options()), {.window = 11}), 4);
  EXPECT_THROW(other.Restore(one.Position()), Error);
  EXPECT_THROW(other.Restore("{}"), Error);
  EXPECT_THROW(other.Restore("not json"), Error);
  OpenOptions unordered = Options();
  unordered.unordered = true;
  Reader none = Batches(OpenFiles(files, unordered), 4);
  EXPECT_THROW((void)none.Position(), Error);
  EXPECT_THROW(none.SeekTo(1), Error);
}

/// Why a reader does not take a position; empty where it does.
std::string WhyNotRestored(Reader reader, const std::string& position) {
  try {
    reader.Restore(position);
  } catch (const Error& error) {
    return error.status().message();
  }
  return {};
}

/// The order's text in front of the first read.
std::string OrderOf(Reader reader) {
  ChainPosition position;
  EXPECT_TRUE(ParsePosition(reader.Position(), &position).ok());
  return position.order;
}

class Bytes final : public Dataset {
 public:
  bool Next(std::string* sample) override {
    if (next_ == 200) return false;
    sample->assign(1, static_cast<char>(next_++));
    return true;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }

 private:
  int next_ = 0;
};

TEST_F(PositionTest, AnotherEpochOfAShuffleIsAnotherOrderWhateverTheSource) {
  const std::vector<std::string> files = MakeFiles(2, 60, 8, 100);
  const auto mix = [&](std::uint32_t epoch) {
    OpenOptions options = SmallStripes();
    options.first_epoch = epoch;
    const Reader first = OpenFiles({files[0]}, SmallStripes());
    return Mix({{first, 1}, {OpenFiles({files[1]}, SmallStripes()), 1}}, options);
  };
  const auto samples = [&](std::uint32_t epoch) {
    OpenOptions options = Options();
    options.first_epoch = epoch;
    return FromDataset(std::make_unique<Bytes>(), options);
  };
  for (const auto& source : {std::function<Reader(std::uint32_t)>(mix), {samples}}) {
    const auto shuffled = [&](std::uint32_t epoch) {
      return Batches(Shuffle(source(epoch), {.window = 16}), 4);
    };
    const std::string position = ReadAll(shuffled(0), 2).positions.back();
    EXPECT_EQ(WhyNotRestored(shuffled(0), position), "");
    EXPECT_NE(WhyNotRestored(shuffled(5), position).find("epoch 5"), std::string::npos);
    // Texts of before, of chains of which no stage draws, go on being read.
    EXPECT_EQ(OrderOf(Batches(source(5), 4)).find("epoch"), std::string::npos);
  }
}

TEST_F(PositionTest, WhatChangesTheLengthsThatBatchesGoByIsOfTheOrder) {
  const std::vector<std::string> files = MakeFiles(2, 60, 8, 100);
  const auto open = [&] { return Raw(files, SmallStripes()); };
  const TokenBatchOptions tokens{.field = "bytes", .tokens = 200};
  const auto cut = [&](std::size_t length) {
    return TokenBatch(Truncate(open(), "bytes", length), tokens);
  };
  const auto filled = [&](std::size_t multiple) {
    return BucketBatch(Pad(open(), "bytes", {.multiple = multiple}),
                       {.size = 4, .field = "bytes", .bounds = {20, 50}});
  };
  for (const auto& chain : {std::function<Reader(std::size_t)>(cut), {filled}}) {
    const std::string position = ReadAll(chain(40), 2).positions.back();
    EXPECT_EQ(WhyNotRestored(chain(40), position), "");
    EXPECT_NE(WhyNotRestored(chain(16), position).find("another order"), std::string::npos);
  }
  EXPECT_NE(OrderOf(TokenBatch(open(), tokens)).find("4096; batches of up to 200 units of bytes;"),
            std::string::npos);
  // Here batches go by numbers, or by the records' bytes.
  EXPECT_EQ(OrderOf(Batch(Truncate(open(), "bytes", 40), {.size = 4})),
            OrderOf(Batch(open(), {.size = 4})));
  EXPECT_EQ(OrderOf(TokenBatch(Truncate(open(), "bytes", 40), {.bytes = 300})),
            OrderOf(TokenBatch(open(), {.bytes = 300})));
}

/// A record's bytes as a field of that name.
class NamedBytes final : public SampleParser {
 public:
  explicit NamedBytes(std::string name) : name_(std::move(name)) {}
  std::vector<FieldSpec> fields() const override { return {{name_, kUInt8, {-1}}}; }
  void Parse(std::string_view sample, RowWriter& row) const override {
    row.Ragged(0, std::as_bytes(std::span(sample)));
  }

 private:
  const std::string name_;
};

TEST_F(PositionTest, AChainTakesItsOwnPositionWhateverBytesItsFieldsNamesHave) {
  const std::vector<std::string> files = MakeFiles(2, 60, 8, 100);
  const auto chain = [&](const std::string& field) {
    const auto parser = std::make_shared<NamedBytes>(field);
    return BucketBatch(ParseSamples(OpenFiles(files, SmallStripes()), parser),
                       {.size = 4, .field = field, .bounds = {20, 50}});
  };
  std::string many;
  while (many.size() < 600) many += "é";
  // One is cut between two characters, one within one, and two are no UTF-8.
  const std::vector<std::string> names = {many, "x" + many, "\xff", "\xfe"};
  for (const std::string& name : names) {
    const std::string position = ReadAll(chain(name), 2).positions.back();
    for (const std::string& other : names) {
      const std::string why = WhyNotRestored(chain(other), position);
      EXPECT_EQ(why.empty(), other == name) << why;
    }
  }
}

TEST_F(PositionTest, WeightsChangeWherePassesThatDependOnThemAreApartOnly) {
  const std::vector<std::string> files = MakeFiles(2, 60, 8, 100);
  const auto mix = [&](double weight, std::uint64_t passes) {
    const Reader first = OpenFiles({files[0]}, SmallStripes());
    return Mix({{first, 1, 1}, {OpenFiles({files[1]}, SmallStripes()), weight, passes}},
               SmallStripes());
  };
  const auto joined = [&](double weight, std::uint64_t passes) {
    return Batches(MultiPass(mix(weight, passes), 3), 4);
  };
  const auto apart = [&](double weight) { return MultiPass(Batches(mix(weight, 0), 4), 3); };
  for (const std::size_t read : {2u, 40u}) {
    const std::string position = ReadAll(joined(1, 0), read).positions.back();
    EXPECT_EQ(WhyNotRestored(joined(1, 0), position), "");
    const std::string why = WhyNotRestored(joined(3, 0), position);
    EXPECT_NE(why.find("MultiPass behind Batch"), std::string::npos) << why;
    EXPECT_EQ(WhyNotRestored(apart(3), ReadAll(apart(1), read).positions.back()), "");
    EXPECT_EQ(WhyNotRestored(joined(3, 2), ReadAll(joined(1, 2), read).positions.back()), "");
  }
  EXPECT_EQ(WhyNotRestored(joined(3, 0), joined(1, 0).Position()), "") << "nothing was counted yet";
}

/// How often each record came, by file and number.
using RecordCounts = std::map<std::pair<std::uint64_t, std::uint64_t>, int>;

/// Reads up to `most` batches, and counts their records.
void CountRecords(Reader* reader, std::size_t most, RecordCounts* counts) {
  Instance batch;
  BatchOrigin origin;
  for (std::size_t i = 0; i < most; ++i) {
    if (reader->TryReadNext(&batch, {.origin = &origin}) != ReadResult::kRecord) break;
    for (const RecordRange& range : origin.records) {
      for (std::uint64_t each = 0; each < range.count; ++each) {
        ++(*counts)[{range.file, range.first + each}];
      }
    }
  }
  EXPECT_TRUE(reader->status().ok()) << reader->status().ToString();
}

// What is left of a segment was dealt by the weights of before: its batches cannot come again.
TEST_F(PositionTest, WeightsChangeAtTheEndOfASegmentAndNotWithinIt) {
  const std::vector<std::string> files = MakeFiles(2, 60, 8, 100);
  OpenOptions options = SmallStripes();
  options.note_records = true;
  const auto mix = [&](double weight) {
    return Parse(
        Mix({{OpenFiles({files[0]}, options), 1}, {OpenFiles({files[1]}, options), weight}},
            options),
        RawParser());
  };
  using Weighted = std::function<Reader(double)>;
  const Weighted packed = [&](double weight) {
    return Pack(mix(weight), {.field = "bytes", .length = 128, .rows = 2, .segment = 20});
  };
  const Weighted buckets = [&](double weight) {
    return BucketBatch(mix(weight),
                       {.size = 4, .field = "bytes", .bounds = {30, 60}, .segment = 20});
  };
  const Weighted groups = [&](double weight) {
    const auto of_three = [](const RecordSpan& record) {
      return static_cast<std::int64_t>(record.size % 3);
    };
    return GroupBatch(mix(weight), {.size = 4, .group_of = of_three, .segment = 20});
  };
  const Weighted filtered = [&](double weight) {
    return Batch(Filter(mix(weight), IsOfThree), {.size = 4});
  };
  // 120 records in segments of 20: the ends of passes and of segments are places for it. Packed
  // rows of a batch may be of two segments.
  const std::pair<Weighted, int> chains[] = {{packed, 2}, {buckets, 6}, {groups, 6}, {filtered, 6}};
  for (const auto& [chain, least] : chains) {
    RecordCounts once;
    Reader whole = chain(1);
    CountRecords(&whole, ~std::size_t{0}, &once);
    int changed = 0;
    const std::vector<std::string> positions = ReadAll(chain(1)).positions;
    for (std::size_t at = 0; at < positions.size(); ++at) {
      ChainPosition position;
      ASSERT_TRUE(ParsePosition(positions[at], &position).ok());
      EXPECT_EQ(WhyNotRestored(chain(1), positions[at]), "");
      const std::string why = WhyNotRestored(chain(3), positions[at]);
      if (position.mark && position.mark->outputs > 0) {
        EXPECT_NE(why.find("within a segment"), std::string::npos) << positions[at] << why;
        continue;
      }
      ASSERT_EQ(why, "") << positions[at];
      changed += at > 0 ? 1 : 0;
      RecordCounts counts;
      Reader first = chain(1);
      CountRecords(&first, at, &counts);
      Reader rest = chain(3);
      rest.Restore(positions[at]);
      CountRecords(&rest, ~std::size_t{0}, &counts);
      EXPECT_EQ(counts, once) << "restored behind batch " << at;
    }
    EXPECT_GE(changed, least);
  }
}

TEST_F(PositionTest, PackedPassesWithoutEndGoOnFromEachBatch) {
  // Full rows leave early; the others and those that are dropped wait for the end of a pass.
  const std::vector<std::size_t> files[] = {
      {10, 10, 10, 10}, {10, 10, 10, 10, 10}, {10, 10, 10, 10, 9, 8}, {9, 10, 9, 10, 8}, {10}};
  for (const std::vector<std::size_t>& sizes : files) {
    const std::string file = MakeFile(sizes);
    for (const bool drops : {false, true}) {
      if (drops && sizes.size() < 2) continue;
      const auto chain = [&] {
        const Reader rows = Parse(OpenFiles({file}, SmallStripes()), RawParser());
        const PackOptions packing{
            .field = "bytes", .length = 10, .rows = 2, .segment = 64, .drop_remainder = drops};
        return MultiPass(Pack(rows, packing), 0);
      };
      const auto bytes_of = [](const Instance& batch) {
        return std::string(reinterpret_cast<const char*>(batch[0].data), batch[0].bytes);
      };
      Reader whole = chain();
      Instance batch;
      std::vector<std::string> positions;
      std::vector<std::string> batches;
      for (int i = 0; i < 12; ++i) {
        positions.push_back(whole.Position());
        ASSERT_EQ(whole.TryReadNext(&batch), ReadResult::kRecord);
        batches.push_back(bytes_of(batch));
      }
      for (std::size_t at = 0; at + 3 < positions.size(); ++at) {
        Reader rest = chain();
        rest.Restore(positions[at]);
        for (std::size_t i = 0; i < 3; ++i) {
          ASSERT_EQ(rest.TryReadNext(&batch), ReadResult::kRecord)
              << at << ": " << rest.status().ToString();
          ASSERT_EQ(bytes_of(batch), batches[at + i]) << at << " " << i;
        }
      }
    }
  }
}

TEST_F(PositionTest, APositionBehindADecoratorKnowsWhatThatReads) {
  const std::vector<std::string> files = MakeFiles(3, 60, 8, 100);
  const auto chain = [&](std::size_t file, std::uint64_t seed, std::size_t size) {
    const Reader input = OpenFiles({files[file]}, SmallStripes());
    return Passed(Batches(Shuffle(input, {.seed = seed, .mode = ShuffleMode::kGlobal}), size));
  };
  const Delivered all = ReadAll(chain(0, 1, 5));
  Reader again = chain(0, 1, 5);
  again.Restore(all.positions[2]);
  EXPECT_EQ(ReadAll(again).batches, Tail(all.batches, 2));
  Reader nested = Passed(chain(0, 1, 5));
  nested.Restore(Passed(chain(0, 1, 5)).Position());
  EXPECT_LE(nested.Position().size(), 1024u);
  EXPECT_NE(WhyNotRestored(chain(1, 1, 5), all.positions[2]).find("other data"), std::string::npos);
  for (const auto& [seed, size] : {std::pair<std::uint64_t, std::size_t>{2, 5}, {1, 3}}) {
    const std::string why = WhyNotRestored(chain(0, seed, size), all.positions[2]);
    EXPECT_NE(why.find("another order"), std::string::npos) << why;
  }
}

TEST_F(PositionTest, WhatHasNoPositionHasNoneBehindADecoratorEither) {
  const std::vector<std::string> files = MakeFiles(3, 60, 8, 100);
  OpenOptions unordered = Options();
  unordered.unordered = true;
  Reader none = Passed(Batches(OpenFiles(files, unordered), 4));
  EXPECT_THROW((void)none.Position(), Error);
  EXPECT_THROW(none.SeekTo(1), Error);
  const Reader shared = Share(Batches(OpenFiles(files, Options()), 4));
  Reader one = Passed(shared);
  EXPECT_THROW((void)one.Position(), Error);
  Reader two = Passed(shared);  // that was no read
  EXPECT_TRUE(two.HasNext());
}

/// Says no where it is to start again for the first time.
class Reluctant final : public InstanceSource {
 public:
  std::vector<SlotSpec> slots() const override { return {{"number", kInt64, {1}, 0}}; }
  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    if (next_ == 10) return ReadResult::kEnd;
    instance->push_back(MakeTensor({1}, std::vector<std::int64_t>{next_++}));
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    next_ = 0;
    return std::exchange(asked_, true);
  }

 private:
  std::int64_t next_ = 0;
  bool asked_ = false;
};

TEST_F(PositionTest, AfterARestoreThatWasRefusedAReaderStartsAgainAtItsBeginning) {
  const auto open = [&] { return FromInstanceSource(std::make_unique<Reluctant>(), Options()); };
  const Delivered all = ReadAll(open());
  Reader reader = open();
  (void)ReadAll(reader, 2);
  EXPECT_THROW(reader.Restore(all.positions[6]), Error);
  reader.ReInit();
  EXPECT_EQ(ReadAll(reader).batches, all.batches);
}

/// The same of records, which are handed on together.
struct ReluctantNumbers : Numbers {
  bool ReInit() override { return Numbers::ReInit() && std::exchange(asked, true); }
  bool asked = false;
};

// Rows of the run before would come without a place in the run that was asked for.
TEST_F(PositionTest, NothingThatWasReadAheadComesAfterASourceRefusedToStartAgain) {
  const auto open = [&](bool batched, bool decorated) {
    Reader reader = Parse(FromDataset(std::make_unique<ReluctantNumbers>()), RawParser());
    if (batched) reader = Batch(reader, {.size = 2});
    return decorated ? Passed(reader) : reader;
  };
  for (const bool batched : {false, true}) {
    for (const bool decorated : {false, true}) {
      Reader reader = open(batched, decorated);
      (void)ReadAll(reader, 2);
      ASSERT_TRUE(reader.HasNext());
      const std::string before = reader.Position();
      EXPECT_THROW(reader.ReInit(), Error);
      for (int reads = 0; reads < 2; ++reads) {
        Instance instance;
        EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed) << batched << decorated;
        EXPECT_NE(reader.status().message().find("cannot start again"), std::string::npos)
            << reader.status().ToString();
      }
      if (!decorated) {  // else the chain itself has started again
        EXPECT_EQ(reader.Position(), before);
      }
      reader.ReInit();
      EXPECT_EQ(ReadAll(reader).batches, ReadAll(open(batched, decorated)).batches);
    }
  }
}

ChainPosition SomePosition() {
  ChainPosition position;
  position.batch = 123456;
  position.mark = PlanPosition{1, 2, 3};
  position.source_pass = 4;
  position.order = "files by 8";
  position.data = {3, 1000, 77, 5, 6, {1, 2, 3}};
  return position;
}

TEST(ChainPositionTest, ANumberIsTakenAsItIsWrittenOrRefused) {
  const std::string text = SomePosition().ToJson();
  ChainPosition read;
  ASSERT_TRUE(ParsePosition(text, &read).ok());
  for (const std::string number : {"123456", "[1,2,3]", "1,", ",2,", "3]", "\"source_pass\":4",
                                   "\"files\":3", "1000", "77", "\"ringfeed_position\":1"}) {
    const std::size_t at = text.find(number);
    ASSERT_NE(at, std::string::npos) << number;
    const std::size_t digit = number.find_first_of("0123456789");
    const std::size_t digits = number.find_first_not_of("0123456789", digit) - digit;
    for (const char* const other :
         {"-1", "1.9", "1.0", "1e3", "1e300", "18446744073709551616", "true", "null", "\"1\"", "{}",
          "[]", "[1]", "-0", "010", "0x10", "NaN"}) {
      std::string changed = text;
      changed.replace(at + digit, std::min(digits, number.size() - digit), other);
      const Status status = ParsePosition(changed, &read);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << changed;
    }
  }
}

TEST(ChainPositionTest, WhatIsNestedDeeplyOrThereTwiceIsRefused) {
  const std::string text = SomePosition().ToJson();
  ChainPosition read;
  for (const std::size_t depth : {100U, 65'500U, 400'000U}) {
    for (const std::string key : {"ringfeed_position", "batch", "mark", "order", "other"}) {
      for (const bool closed : {false, true}) {
        const std::string deep =
            std::string(depth, '[') + (closed ? std::string(depth, ']') : std::string());
        std::string changed = "{\"" + key + "\":" + deep + "," + text.substr(1);
        EXPECT_EQ(ParsePosition(changed, &read).code(), StatusCode::kInvalidArgument);
        std::string objects;
        for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
        changed = "{\"" + key + "\":" + objects + "1" + std::string(depth, '}') + "}";
        EXPECT_EQ(ParsePosition(changed, &read).code(), StatusCode::kInvalidArgument);
      }
    }
  }
  const Status twice = ParsePosition("{\"batch\":7," + text.substr(1), &read);
  EXPECT_EQ(twice.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(twice.message().find("\"batch\" is in it twice"), std::string::npos) << twice.message();
  for (const std::string hash : {"0000000000000005", "000100020003"}) {
    for (const std::string other : {"", "-1", "5", "0x00000000000005", "000000000000000g"}) {
      std::string changed = text;
      changed.replace(changed.find(hash), hash.size(), other);
      if (other.empty() && hash.size() == 12) continue;  // of no file
      EXPECT_EQ(ParsePosition(changed, &read).code(), StatusCode::kInvalidArgument) << changed;
    }
  }
}

TEST(ChainPositionTest, TextThatIsDamagedAnywhereIsRefusedOrAnotherPosition) {
  ChainPosition position;
  position.batch = 123456;
  position.mark = PlanPosition{1, 2, 3};
  position.order = "files by 8";
  position.data = {3, 1000, 77, 5, 6, {1, 2, 3}};
  const std::string text = position.ToJson();
  ChainPosition read;
  ASSERT_TRUE(ParsePosition(text, &read).ok());
  EXPECT_EQ(read.ToJson(), text);
  for (std::size_t at = 0; at < text.size(); ++at) {
    EXPECT_FALSE(ParsePosition(text.substr(0, at), &read).ok());
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x40);
    (void)ParsePosition(flipped, &read);
  }
}

}  // namespace
}  // namespace ringfeed
