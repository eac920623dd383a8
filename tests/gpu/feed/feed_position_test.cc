#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/feed/batch_supply.h"
#include "gpu/feed/feed_core.h"
#include "ringfeed/dataset.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/feed/numbered_batches.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

// Where a feed stands, whatever it has read ahead.

namespace ringfeed {
namespace {

/// All bytes of a lease, shapes too.
std::string Contents(DeviceLease* lease) {
  std::string text;
  for (const Tensor& tensor : lease->WaitHost()) {
    text += ShapeToString(tensor.shape);
    text.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
    for (const auto& level : tensor.lod) {
      text.append(reinterpret_cast<const char*>(level.data()), level.size_bytes());
    }
  }
  return text;
}

std::vector<std::string> Rest(DeviceFeed* feed) {
  std::vector<std::string> rest;
  while (auto lease = feed->Next()) rest.push_back(Contents(&*lease));
  return rest;
}

std::vector<std::string> Tail(const std::vector<std::string>& all, std::size_t from) {
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.end()};
}

FeedOptions On(std::size_t devices, Distribution distribution = Distribution::kRoundRobin) {
  FeedOptions options;
  options.backend = EmulatedDevices::Open(static_cast<int>(devices));
  options.distribution = distribution;
  return options;
}

class FeedPositionTest : public PipelineTest {
 protected:
  static constexpr std::uint64_t kBatches = 2 * 13;  // 90 rows by 7, two passes

  FeedPositionTest() : files_(MakeFiles(3, 30, 8, 200)) {}

  /// Each chain with an arena of its own: several are at work at a time.
  OpenOptions InOwnArena() const {
    OpenOptions options = Options();
    options.arena = std::make_shared<PinnedArena>(kArenaBytes);
    return options;
  }
  /// A new chain over the same files; the modes come to their positions by different ways.
  Reader Chain(ShuffleMode mode = ShuffleMode::kWindow) const {
    const Reader rows = Parse(OpenFiles(files_, InOwnArena()), RawParser());
    const ShuffleOptions shuffle = {
        .window = mode == ShuffleMode::kWindow ? 20U : 0U, .seed = 3, .mode = mode};
    return MultiPass(Batch(Shuffle(rows, shuffle), {.size = 7}), 2);
  }
  /// Rows that do not differ in length, which can be cut into parts.
  Reader EvenChain() {
    std::vector<std::size_t> sizes(66, 24);
    if (even_file_.empty()) even_file_ = MakeFile(sizes);
    return Batch(Parse(OpenFiles({even_file_}, InOwnArena()), RawParser()), {.size = 6});
  }
  static Reader At(Reader chain, const std::string& position) {
    chain.Restore(position);
    return chain;
  }

  const std::vector<std::string> files_;

 private:
  std::string even_file_;
};

TEST_F(FeedPositionTest, ANewChainGoesOnBehindAnyLeaseByAnyNumberOfDevices) {
  for (const ShuffleMode mode : {ShuffleMode::kWindow, ShuffleMode::kGlobal}) {
    DeviceFeed whole(Chain(mode), On(1));
    const std::vector<std::string> all = Rest(&whole);
    ASSERT_EQ(all.size(), kBatches);
    for (const std::size_t devices : {1U, 2U, 3U}) {
      for (const std::size_t taken : {1U, 5U, 13U, 14U, 26U}) {
        Reader chain = Chain(mode);
        DeviceFeed feed(chain, On(devices));
        std::string position;
        for (std::size_t k = 0; k < taken; ++k) {
          const auto lease = feed.Next();
          EXPECT_EQ(lease->origin().batch, k);
          EXPECT_EQ(lease->origin().pass, k / 13);
          position = chain.Position(lease->origin());
        }
        EXPECT_EQ(feed.Position(), position);
        DeviceFeed other(At(Chain(mode), position), On(4 - devices));
        EXPECT_EQ(other.Position(), At(Chain(mode), position).Position());
        EXPECT_EQ(Rest(&other), Tail(all, taken)) << devices << " devices, behind " << taken;
      }
    }
  }
}

// A batch counts when the last device of its group has it.
TEST_F(FeedPositionTest, AReplicatedBatchCountsWithItsLastCopy) {
  DeviceFeed whole(Chain(), On(1));
  const std::vector<std::string> all = Rest(&whole);
  for (const std::size_t taken : {1U, 2U, 3U, 7U, 12U}) {
    FeedOptions options = On(4, Distribution::kReplicate);
    options.replicas = 2;
    DeviceFeed feed(Chain(), options);
    for (std::size_t k = 0; k < taken; ++k) {
      auto lease = feed.Next();
      EXPECT_EQ(lease->number(), k / 2);
      EXPECT_EQ(lease->origin().batch, k / 2);
      EXPECT_EQ(Contents(&*lease), all[k / 2]);
    }
    DeviceFeed other(At(Chain(), feed.Position()), On(1));
    EXPECT_EQ(Rest(&other), Tail(all, taken / 2)) << taken;
  }
}

// How many rows are usual is known also where the first batch that comes is the short last one.
TEST_F(FeedPositionTest, AShortLastBatchIsWhatItWasHoweverFewComeBeforeIt) {
  const std::vector<std::size_t> sizes(66, 24);
  const std::string file = MakeFile(sizes);
  for (const auto& [distribution, last_step] :
       {std::pair(Distribution::kRoundRobin, LastStep::kPad),
        std::pair(Distribution::kSplit, LastStep::kPad),
        std::pair(Distribution::kSplit, LastStep::kDrop)}) {
    const auto options = [&, distribution = distribution, last_step = last_step] {
      FeedOptions on = On(2, distribution);
      on.last_step = last_step;
      return on;
    };
    for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
      const auto chain = [&] {
        const Reader rows = Parse(OpenFiles({file}, InOwnArena()), RawParser());
        return Batch(Shuffle(rows, {.seed = 1, .mode = mode}), {.size = 9});  // 7 and 3 rows
      };
      DeviceFeed whole(chain(), options());
      const std::vector<std::string> all = Rest(&whole);
      for (const std::uint64_t batch : {0U, 1U, 4U, 6U, 7U}) {
        Reader later = chain();
        later.SeekTo(batch);
        DeviceFeed feed(later, options());
        const bool split = distribution == Distribution::kSplit;
        // A step is two batches, or the two parts of one.
        if (!split && batch % 2 == 1) continue;
        const std::size_t before = std::min<std::size_t>(all.size(), split ? 2 * batch : batch);
        EXPECT_EQ(Rest(&feed), Tail(all, before)) << batch;
      }
    }
  }
}

// Else it would hang on where a run is taken up again whether it can go on.
TEST_F(FeedPositionTest, FixedSlotsHoldWholeBatchesAlsoWhereAShortOneComesFirst) {
  const std::string file = MakeFile(std::vector<std::size_t>(66, 1000));
  for (const Distribution distribution : {Distribution::kRoundRobin, Distribution::kSplit}) {
    for (const std::size_t devices : {1U, 2U, 4U}) {
      for (const LastStep last_step : {LastStep::kUneven, LastStep::kPad, LastStep::kShort}) {
        const auto behind_seven = [&](bool fixed_slots) {
          const Reader rows = Parse(OpenFiles({file}, InOwnArena()), RawParser());
          Reader chain = MultiPass(Batch(rows, {.size = 9}), 3);  // the last of a pass has 3 rows
          chain.SeekTo(7);
          FeedOptions options = On(devices, distribution);
          options.last_step = last_step;
          options.fixed_slots = fixed_slots;
          DeviceFeed feed(chain, options);
          return Rest(&feed);
        };
        EXPECT_TRUE(behind_seven(true) == behind_seven(false));
      }
    }
  }
}

TEST_F(FeedPositionTest, PassesOfLessThanABatchAreNotTakenForShortOnesAfterASeek) {
  const std::vector<std::size_t> sizes(10, 24);
  const std::string file = MakeFile(sizes);
  for (const IndexUse index : {IndexUse::kAsNeeded, IndexUse::kNever}) {
    for (const std::uint64_t batch : {0U, 1U, 3U}) {
      OpenOptions options = InOwnArena();
      options.index = index;
      Reader reader =
          MultiPass(Batch(Parse(OpenFiles({file}, options), RawParser()), {.size = 16}), 4);
      if (batch > 0) reader.SeekTo(batch);
      FeedOptions on = On(2, Distribution::kSplit);
      on.last_step = LastStep::kDrop;
      DeviceFeed feed(reader, on);
      EXPECT_EQ(Rest(&feed).size(), 2 * (4 - batch));
    }
  }
}

TEST_F(FeedPositionTest, BatchesThatDependOnWhatIsInRecordsGoOnByTheirMarks) {
  const auto chain = [this] {
    const auto odd = [](const RecordSpan& record) { return record.size % 2 == 1; };
    return Batches(Filter(OpenFiles(files_, InOwnArena()), odd), 5);
  };
  DeviceFeed whole(chain(), On(1));
  const std::vector<std::string> all = Rest(&whole);
  ASSERT_GT(all.size(), 4u);
  for (std::size_t taken = 0; taken <= all.size(); ++taken) {
    DeviceFeed feed(chain(), On(2));
    for (std::size_t k = 0; k < taken; ++k) (void)feed.Next();
    DeviceFeed other(At(chain(), feed.Position()), On(1));
    EXPECT_EQ(Rest(&other), Tail(all, taken));
  }
}

TEST_F(FeedPositionTest, NoPositionLiesBehindABatchThatAFailureCutShort) {
  const auto chain = [this] {
    const auto throws = [](const RecordSpan& record) {
      if (IdOfPayload(record.bytes()) == 20) throw std::runtime_error("this one");
      return true;
    };
    return Batches(Filter(OpenFiles({files_[0]}, InOwnArena()), throws), 7);
  };
  std::string position;
  for (const std::size_t begin : {0U, 2U, 2U}) {
    Reader reader = chain();
    if (begin > 0) reader.Restore(position);
    DeviceFeed feed(reader, On(2));
    DeviceLease lease;
    Status status;
    std::vector<std::uint64_t> batches;
    while (feed.TryNext(&lease, &status) == ReadResult::kRecord) {
      batches.push_back(lease.origin().batch);
      EXPECT_EQ(feed.Position(), reader.Position(lease.origin()));
    }
    EXPECT_EQ(status.code(), StatusCode::kUserError) << status.ToString();
    EXPECT_EQ(batches,
              begin == 0 ? (std::vector<std::uint64_t>{0, 1, 2}) : (std::vector<std::uint64_t>{2}));
    EXPECT_TRUE(begin == 0 || feed.Position() == position);
    position = feed.Position();
  }
}

TEST_F(FeedPositionTest, ALeaseCountsWhenThatIsTold) {
  FeedOptions options = On(2);
  options.count_when_told = true;
  Reader chain = Chain();
  DeviceFeed feed(chain, options);
  const std::string start = feed.Position();
  std::optional<DeviceLease> first = feed.Next();
  std::optional<DeviceLease> second = feed.Next();
  EXPECT_EQ(feed.Position(), start);
  second->Count();  // the one before it is missing
  EXPECT_EQ(feed.Position(), start);
  const std::string behind = chain.Position(second->origin());
  first->Count();
  EXPECT_EQ(feed.Position(), behind);
  std::optional<DeviceLease> old = feed.Next();
  feed.ReInit();
  old->Count();  // of a start that is over
  EXPECT_EQ(feed.Position(), start);
  first->Release();
  EXPECT_THROW(first->Count(), Error);
}

TEST_F(FeedPositionTest, BeforeTheFirstLeaseAFeedStandsWhereItBegan) {
  DeviceFeed feed(Chain(), On(2));
  DeviceFeed again(At(Chain(), feed.Position()), On(1));
  EXPECT_EQ(Rest(&again).size(), kBatches);
  EXPECT_EQ(Rest(&feed).size(), kBatches);
}

// A rank of which nothing is left in the last batch comes to the end without it.
TEST_F(FeedPositionTest, AtTheEndFeedsOfAllRanksStandAtTheSamePlace) {
  const std::string file = MakeFile(std::vector<std::size_t>(9, 24));
  const auto chain = [&](int rank) {
    return Batch(Parse(OpenFiles({file}, InOwnArena()), RawParser()),
                 {.size = 4, .rank = {.rank = rank, .world_size = 2, .source = "test"}});
  };
  for (const LastStep last_step : {LastStep::kUneven, LastStep::kPad, LastStep::kShort}) {
    for (const std::size_t devices : {1U, 2U}) {
      for (const int rank : {0, 1}) {
        Reader plain = chain(rank);
        Instance instance;
        while (plain.TryReadNext(&instance) == ReadResult::kRecord) continue;
        FeedOptions options = On(devices);
        options.last_step = last_step;
        DeviceFeed feed(chain(rank), options);
        (void)Rest(&feed);
        for (std::size_t device = 0; device < devices; ++device) EXPECT_FALSE(feed.Next(device));
        EXPECT_EQ(feed.Position(), plain.Position()) << rank << " " << devices;
        EXPECT_TRUE(feed.Close().ok());
        EXPECT_EQ(feed.Position(), plain.Position()) << rank << " " << devices << ", closed";
      }
    }
  }
}

// A program goes on with the chain, or with others in the same memory, and keeps the feed for what
// it says of itself.
TEST_F(FeedPositionTest, AClosedFeedHoldsNothingOfItsChain) {
  for (const std::size_t devices : {1U, 2U}) {
    for (const std::uint64_t taken : {0U, 1U, 5U}) {
      OpenOptions options = InOwnArena();
      Reader chain = Batch(Parse(OpenFiles(files_, options), RawParser()), {.size = 2});
      FeedOptions on = On(devices);
      on.slots = 2;
      DeviceFeed feed(chain, on);
      std::vector<DeviceLease> leases;
      for (std::uint64_t k = 0; k < taken; ++k) {
        if (leases.size() == devices) leases.clear();
        leases.push_back(*feed.Next());
      }
      // Until the lanes are full.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_TRUE(feed.Close().ok());
      chain.Close();
      EXPECT_EQ(options.arena->arena()->Use().in_use_bytes, 0U) << devices << " " << taken;
    }
  }
}

TEST_F(FeedPositionTest, AChainOfFewBatchesIsReadOnBehindAClosedFeed) {
  FeedOptions options = On(1);
  options.devices = {0};
  const std::size_t batches = Distributor::HeldBatches(options);
  Reader chain =
      Batch(Parse(OpenFiles(files_, InOwnArena()), RawParser()), {.size = 2, .slots = batches});
  DeviceFeed feed(chain, options);
  (void)feed.Next();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(feed.Close().ok());
  std::vector<Instance> held;
  for (std::size_t k = 0; k + 1 < batches; ++k) {
    Instance batch;
    ASSERT_EQ(chain.TryReadNext(&batch), ReadResult::kRecord) << chain.status().ToString();
    held.push_back(std::move(batch));
  }
}

struct TwelveSamples : RandomAccessDataset {
  std::uint64_t Size() const override { return 12; }
  void At(std::uint64_t index, std::string* sample) override {
    sample->assign(24, static_cast<char>(index));
  }
};

// Whether the feed has come to read is nothing that ranks may differ by.
TEST_F(FeedPositionTest, EachReInitStartsTheNextPassOfADataSetHoweverEarly) {
  const auto chain = [this] {
    auto records = std::make_unique<DistributedTrainingDataset>(
        std::make_unique<TwelveSamples>(), DistributedOptions{.shuffle = true, .seed = 7});
    return Batch(Parse(FromDataset(std::move(records), InOwnArena()), RawParser()), {.size = 5});
  };
  DeviceFeed whole(chain(), On(1));
  std::vector<std::vector<std::string>> passes = {Rest(&whole)};
  for (int pass = 1; pass < 3; ++pass) {
    whole.ReInit();
    passes.push_back(Rest(&whole));
    EXPECT_NE(passes[static_cast<std::size_t>(pass)], passes.front());
  }
  for (int times = 0; times < StressRounds(50); ++times) {
    DeviceFeed feed(chain(), On(1));
    for (int wait = 0; wait < times % 7; ++wait) std::this_thread::yield();
    feed.ReInit();
    if (times % 2 == 0) {
      ASSERT_TRUE(feed.Next());
    }
    feed.ReInit();
    ASSERT_EQ(Rest(&feed), passes[2]);
  }
}

TEST_F(FeedPositionTest, AFeedThatCameToNothingLeavesTheChainAsItWas) {
  const auto chain = [this] {
    auto records = std::make_unique<DistributedTrainingDataset>(
        std::make_unique<TwelveSamples>(), DistributedOptions{.shuffle = true, .seed = 7});
    return Batch(Parse(FromDataset(std::move(records), InOwnArena()), RawParser()), {.size = 5});
  };
  const auto first = [](Reader reader) {
    const Instance batch = reader.ReadNext();
    return std::vector<std::byte>(batch[0].data, batch[0].data + batch[0].bytes);
  };
  Reader reader = chain();
  (void)SupplyOf(reader, On(1));  // what a feed begins with, and ends with where it cannot be
  reader.ReInit();
  EXPECT_EQ(first(reader), first(chain()));
}

// What was read ahead is let go of before the reader begins again.
TEST_F(FeedPositionTest, AFeedStartsAgainInTheMemoryThatItRunsIn) {
  const std::string file = MakeFile(std::vector<std::size_t>(200, 64 << 10));
  for (const TransferPlan plan : {TransferPlan::kBatch, TransferPlan::kMembers}) {
    OpenOptions in_little = Options();
    in_little.arena = std::make_shared<PinnedArena>(std::size_t{10} << 20);
    in_little.threads = 1;
    EmulatedOptions devices;
    devices.devices[0].copy_latency_ns = 2'000'000;
    FeedOptions options;
    options.backend = EmulatedDevices::Open(devices);
    options.transfer = plan;
    options.slots = 4;
    DeviceFeed feed(Batch(Parse(OpenFiles({file}, in_little), RawParser()), {.size = 16}), options);
    for (int starts = 0; starts < 4; ++starts) {
      for (int batches = 0; batches < 3; ++batches) ASSERT_TRUE(feed.Next());
      feed.ReInit();
    }
    EXPECT_EQ(Rest(&feed).size(), 13U);
  }
}

// A feed holds batches to copy ahead, and goes on with fewer.
TEST_F(FeedPositionTest, AFeedReadsAllInAnArenaThatHoldsFewBatches) {
  const std::string file = MakeFile(std::vector<std::size_t>(200, 256 << 10));
  for (const TransferPlan plan : {TransferPlan::kBatch, TransferPlan::kSlabs}) {
    for (const std::size_t arena_mib : {20U, 24U, 32U}) {
      OpenOptions in_little = Options();
      in_little.arena = std::make_shared<PinnedArena>(arena_mib << 20);
      in_little.threads = 1;
      FeedOptions options;
      options.backend = EmulatedDevices::Open(1);
      options.transfer = plan;
      DeviceFeed feed(Batch(Parse(OpenFiles({file}, in_little), RawParser()), {.size = 16}),
                      options);
      EXPECT_EQ(Rest(&feed).size(), 13U) << arena_mib << " MiB";
    }
  }
}

TEST_F(FeedPositionTest, WhereItWasSoughtToIsFoundWhileDevicesReadAhead) {
  const auto chain = [this] {
    const auto odd = [](const RecordSpan& record) { return record.size % 2 == 1; };
    return Batches(Filter(OpenFiles(files_, InOwnArena()), odd), 3);
  };
  DeviceFeed whole(chain(), On(1));
  const std::vector<std::string> all = Rest(&whole);
  ASSERT_GT(all.size(), 12u);
  for (const std::uint64_t batch : {1U, 5U, 12U}) {
    for (const std::size_t devices : {1U, 2U}) {
      Reader sought = chain();
      sought.SeekTo(batch);
      DeviceFeed feed(sought, On(devices));
      DeviceFeed other(At(chain(), feed.Position()), On(1));
      EXPECT_EQ(Rest(&other), Tail(all, batch));
      EXPECT_EQ(Rest(&feed), Tail(all, batch));
    }
  }
}

TEST_F(FeedPositionTest, WhereLoopsRunApartNothingThatIsMissingIsLeftOut) {
  DeviceFeed whole(Chain(), On(1));
  const std::vector<std::string> all = Rest(&whole);
  Reader chain = Chain();
  DeviceFeed feed(chain, On(2));
  DeviceLease lease = *feed.Next(0);  // batch 0
  const std::string behind_0 = chain.Position(lease.origin());
  lease = *feed.Next(1);
  lease = *feed.Next(1);  // 3: 2 is missing
  EXPECT_EQ(lease.origin().batch, 3u);
  const std::string position = feed.Position();
  EXPECT_NE(position, behind_0);
  DeviceFeed other(At(Chain(), position), On(1));
  EXPECT_EQ(Rest(&other), Tail(all, 2));
  const DeviceLease missing = *feed.Next(0);
  EXPECT_EQ(feed.Position(), chain.Position(BatchOrigin{3, 0, {}, {}, {}}));
}

TEST_F(FeedPositionTest, PartsOfOneBatchHaveOneOriginAndCountTogether) {
  DeviceFeed whole(EvenChain(), On(1));
  const std::vector<std::string> all = Rest(&whole);
  Reader chain = EvenChain();
  DeviceFeed feed(chain, On(3, Distribution::kSplit));
  std::string behind_whole = feed.Position();
  for (std::uint64_t number = 0; number < 3 * 4; ++number) {
    const auto lease = feed.Next();
    EXPECT_EQ(lease->origin().batch, number / 3);
    EXPECT_EQ(lease->rows(), 2u);
    if (number % 3 == 2) behind_whole = chain.Position(lease->origin());
    EXPECT_EQ(feed.Position(), behind_whole) << number;
  }
  (void)feed.Next();
  DeviceFeed other(At(EvenChain(), feed.Position()), On(1));
  EXPECT_EQ(Rest(&other), Tail(all, 4));
}

TEST_F(FeedPositionTest, AFeedGoesElsewhereAtAnyTimeAndLeasesThatAreOutStay) {
  const FeedOptions options = On(2);
  {
    DeviceFeed feed(Chain(), options);
    std::vector<std::string> positions = {feed.Position()};
    std::vector<std::string> all;
    while (auto lease = feed.Next()) {
      all.push_back(Contents(&*lease));
      positions.push_back(feed.Position());
    }
    ASSERT_EQ(all.size(), kBatches);
    DeviceLease kept;
    std::string in_kept;
    for (const std::size_t to : {7U, 0U, 25U, 26U, 12U, 13U, 3U}) {
      feed.Restore(positions[to]);
      if (kept) {
        EXPECT_EQ(Contents(&kept), in_kept);
      }
      for (std::size_t k = to; k < std::min<std::size_t>(to + 4, kBatches); ++k) {
        DeviceLease lease = *feed.Next();
        EXPECT_EQ(lease.number(), k - to);
        EXPECT_EQ(lease.origin().batch, k);
        in_kept = Contents(&lease);
        EXPECT_EQ(in_kept, all[k]);
        kept = std::move(lease);
      }
    }
    EXPECT_EQ(Rest(&feed), Tail(all, 7));
    EXPECT_EQ(Contents(&kept), in_kept);
    feed.SeekTo(20);
    EXPECT_EQ(Rest(&feed), Tail(all, 20));
    feed.ReInit();
    EXPECT_EQ(Rest(&feed), all);
  }
  const auto* const emulated = dynamic_cast<EmulatedDevices*>(options.backend.get());
  EXPECT_TRUE(emulated->Leaks().none());
  EXPECT_TRUE(emulated->offences().empty()) << emulated->offences().front().ToString();
}

TEST_F(FeedPositionTest, AFeedThatWasSoughtIsSoughtAgainBeforeItKnowsWhereItStands) {
  const auto odd = [](const RecordSpan& record) { return record.size % 2 == 1; };
  const auto endless = [&] {
    return MultiPass(Batches(Filter(OpenFiles(files_, InOwnArena()), odd), 5), 0);
  };
  DeviceFeed whole(endless(), On(1));
  std::vector<std::string> all;
  while (all.size() < 10) {
    DeviceLease lease = *whole.Next();
    all.push_back(Contents(&lease));
  }
  DeviceFeed feed(endless(), On(2));
  feed.SeekTo(std::uint64_t{1} << 50);  // it would read up to there for years
  feed.SeekTo(4);
  for (std::size_t k = 4; k < all.size(); ++k) {
    DeviceLease lease = *feed.Next();
    EXPECT_EQ(Contents(&lease), all[k]);
  }
}

TEST_F(FeedPositionTest, APositionOfOtherDataIsRefusedBeforeAnythingIsLost) {
  DeviceFeed even(EvenChain(), On(1));
  const std::string other = even.Position();
  DeviceFeed feed(Chain(), On(2));
  for (std::uint64_t k = 0; k < 3; ++k) EXPECT_EQ(feed.Next()->number(), k);
  EXPECT_THROW(feed.Restore(other), Error);
  EXPECT_THROW(feed.Restore("no position"), Error);
  EXPECT_EQ(feed.Next()->number(), 3u);
  (void)feed.Close();
  EXPECT_THROW(feed.Restore(feed.Position()), Error);
}

TEST_F(FeedPositionTest, AChainWithoutPositionIsFedAndSaysWhyItHasNone) {
  OpenOptions options = Options();
  options.unordered = true;
  DeviceFeed feed(Batches(OpenFiles(files_, options), 9), On(1));
  EXPECT_TRUE(feed.Next().has_value());
  EXPECT_THROW((void)feed.Position(), Error);
  EXPECT_THROW(feed.SeekTo(2), Error);
  EXPECT_EQ(feed.Next()->number(), 1u);
}

TEST_F(FeedPositionTest, WhatIsNoChainHasNoPosition) {
  FeedOptions options = On(1);
  options.devices = {0};
  const auto core = FeedCore::Start(
      std::make_unique<NumberedSupply>(NumberedSupply::Options(), options.backend), options);
  try {
    (void)core->Position();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kUnsupported);
  }
  EXPECT_TRUE(core->Close().ok());
}

}  // namespace
}  // namespace ringfeed
