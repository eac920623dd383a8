#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "gpu/feed/batch_supply.h"
#include "gpu/feed/feed_core.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/tuning.h"
#include "tests/gpu/feed/numbered_batches.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/pattern_file.h"
#include "tests/support/stress_scale.h"

// However bytes come onto devices, the same come, in the same order.

namespace ringfeed {
namespace {

/// What came, and how.
struct Outcome {
  std::vector<std::string> batches;  ///< device, rows and all bytes of each
  std::string end;                   ///< "", or the failure
  std::uint64_t member_bytes = 0;
  std::uint64_t slab_bytes = 0;
  std::uint64_t delivered_bytes = 0;
  std::uint64_t damaged = 0;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.batches == b.batches && a.end == b.end && a.damaged == b.damaged;
  }
};

std::string ContentsOf(DeviceLease* lease) {
  std::string text = std::to_string(lease->device()) + ":" + std::to_string(lease->valid_rows());
  for (const Tensor& tensor : lease->WaitHost()) {
    text += ShapeToString(tensor.shape);
    text.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
    for (const auto& level : tensor.lod) {
      text.append(reinterpret_cast<const char*>(level.data()), level.size_bytes());
    }
  }
  return text;
}

Outcome FeedAll(const Reader& reader, FeedOptions options, std::size_t devices) {
  const auto backend = EmulatedDevices::Open(static_cast<int>(devices));
  options.backend = backend;
  Outcome outcome;
  {
    DeviceFeed feed(reader, options);
    while (true) {
      DeviceLease lease;
      Status status;
      const ReadResult result = feed.TryNext(&lease, &status);
      if (result == ReadResult::kFailed) outcome.end = status.ToString();
      if (result != ReadResult::kRecord) break;
      outcome.batches.push_back(ContentsOf(&lease));
    }
    for (const DeviceFeedStats& device : feed.Stats().devices) {
      outcome.member_bytes += device.member_bytes;
      outcome.slab_bytes += device.slab_bytes;
      outcome.delivered_bytes += device.delivered_bytes;
    }
  }
  outcome.damaged = reader.Stats().damaged_records;
  EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
  return outcome;
}

/// A row of a batch of one field: its bytes, and where in a piece of an arena they stand.
struct PlacedRow {
  std::size_t bytes = 0;
  std::size_t from = 0;
  std::size_t slab = 0;  ///< number of the memory that is kept with it
};

/// Batches of bytes whose rows all stand elsewhere. What the batch itself has is wrong.
class PlacedRows final : public BatchSupply {
 public:
  explicit PlacedRows(std::vector<std::vector<PlacedRow>> batches, bool ragged = true)
      : batches_(std::move(batches)), ragged_(ragged), pending_(batches_.size()) {
    std::byte* const from = from_.data;
    for (std::size_t i = 0; i < from_.bytes; ++i) {
      from[i] = static_cast<std::byte>(i * 131 + i / 4096 + 1);
    }
  }
  ~PlacedRows() override { arena_->Free(from_); }
  PlacedRows(const PlacedRows&) = delete;
  PlacedRows& operator=(const PlacedRows&) = delete;

  SupplyResult Take(SuppliedBatch* batch, Status*, const std::stop_token&) override {
    if (next_ == batches_.size()) return SupplyResult::kEnd;
    const SlabRun run = arena_->Allocate(std::size_t{1} << 20);
    std::memset(run.data, 0xAB, run.bytes);
    auto offsets = std::make_shared<std::vector<std::int64_t>>(1);
    for (const PlacedRow& row : batches_[next_]) {
      const auto at = static_cast<std::size_t>(offsets->back());
      pending_[next_].push_back(
          {run.data + at, from_.data + row.from, row.bytes, from_.data + row.slab});
      offsets->push_back(offsets->back() + static_cast<std::int64_t>(row.bytes));
    }
    Tensor tensor;
    tensor.dtype = kUInt8;
    tensor.data = run.data;
    tensor.bytes = static_cast<std::size_t>(offsets->back());
    tensor.shape = {offsets->back()};
    if (ragged_) {
      tensor.lod.push_back({offsets->data(), offsets->size()});
    } else {
      const auto rows = static_cast<std::int64_t>(batches_[next_].size());
      tensor.shape = {rows, offsets->back() / rows};
    }
    tensor.owner = std::shared_ptr<const void>(
        offsets.get(), [offsets, run, arena = arena_](const void*) { arena->Free(run); });
    batch->tensors.clear();
    batch->tensors.push_back(std::move(tensor));
    batch->pending = pending_[next_++];
    return SupplyResult::kBatch;
  }
  void ReInit() override { next_ = 0; }

  std::string BytesOf(std::size_t batch) const {
    std::string bytes;
    for (const PlacedRow& row : batches_[batch]) {
      bytes.append(reinterpret_cast<const char*>(from_.data + row.from), row.bytes);
    }
    return bytes;
  }

 private:
  const std::vector<std::vector<PlacedRow>> batches_;
  const bool ragged_;
  const std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = std::size_t{32} << 20});
  const SlabRun from_ = arena_->Allocate(std::size_t{4} << 20);
  std::vector<std::vector<PendingCopy>> pending_;
  std::size_t next_ = 0;
};

/// Feeds the batches, compares all of them, and gives what the device says of it.
DeviceFeedStats FeedPlaced(std::vector<std::vector<PlacedRow>> batches, FeedOptions options,
                           bool ragged = true) {
  const std::size_t count = batches.size();
  auto supply = std::make_unique<PlacedRows>(std::move(batches), ragged);
  const PlacedRows* const rows = supply.get();
  const auto backend = EmulatedDevices::Open(1);
  options.backend = backend;
  options.devices = {0};
  options.slots = 2;
  const auto core = FeedCore::Start(std::move(supply), options, {.poison = true});
  for (std::size_t b = 0; b < count; ++b) {
    DeviceLease lease;
    Status status;
    if (core->TryNext(&lease, &status) != ReadResult::kRecord) {
      ADD_FAILURE() << "batch " << b << ": " << status.ToString();
      break;
    }
    const Tensor& tensor = lease.WaitHost()[0];
    const std::string got(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
    EXPECT_EQ(got, rows->BytesOf(b)) << "batch " << b;
  }
  const DeviceFeedStats stats = core->Stats().devices[0];
  EXPECT_TRUE(core->Close().ok());
  EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
  return stats;
}

// The middle row is no padding between the others, though it looks so.
TEST(PlacedRowsTest, WhatIsStagedOverwritesNothingBetween) {
  FeedPlaced({{{2000, 500'000}, {48, 1000}, {2000, 900'000}}}, {});
}

TEST(PlacedRowsTest, RowsWithinOthersAreCopiedWhole) {
  for (const TransferPlan plan :
       {TransferPlan::kAuto, TransferPlan::kMembers, TransferPlan::kSlabs}) {
    FeedOptions options;
    options.transfer = plan;
    FeedPlaced({{{3000, 4096}, {2000, 4096}}, {{3000, 4096}, {100, 5000}, {900, 7000}}}, options);
  }
}

// What stands between may be another block's: freed, or written meanwhile.
TEST(PlacedRowsTest, RowsOfDifferentSlabsAreNotCopiedTogether) {
  FeedOptions options;
  options.transfer = TransferPlan::kSlabs;
  const DeviceFeedStats stats = FeedPlaced(
      {{{3000, 0, 0}, {3000, 3100, 0}, {3000, 6200, 6144}, {3000, 9300, 6144}}}, options);
  EXPECT_EQ(stats.slab_bytes, 12'000u);
  EXPECT_EQ(stats.copied_bytes, 6100u + 6100u + 4 * sizeof(GatheredPiece) + 5 * 8);
}

std::vector<std::vector<PlacedRow>> FurtherAndFurtherApart() {
  std::vector<std::vector<PlacedRow>> batches;
  for (std::size_t i = 0; i < 12; ++i) {
    batches.push_back(
        {{3072, 0}, {3072, 3100 + 100 * i}, {3072, 6300 + 200 * i}, {3072, 9500 + 300 * i}});
  }
  return batches;
}

TEST(PlacedRowsTest, SlotsGrowSeldomWhateverStandsBetweenRows) {
  EXPECT_LE(FeedPlaced(FurtherAndFurtherApart(), {}, false).grown_slots, 2u);
}

// What a slot had before it grew stays until the feed's end.
TEST(PlacedRowsTest, AlsoSlotsThatWereGivenTooFewBytesGrowSeldom) {
  FeedOptions options;
  options.slot_bytes = 4 * 3072;
  EXPECT_LE(FeedPlaced(FurtherAndFurtherApart(), options, false).grown_slots, 5u);
}

TEST(PlacedRowsTest, FixedSlotsHoldWhatTheTensorsTake) {
  FeedOptions options;
  options.fixed_slots = true;
  EXPECT_EQ(FeedPlaced(FurtherAndFurtherApart(), options, false).grown_slots, 0u);
  options.slot_bytes = 4 * 3072;
  EXPECT_EQ(FeedPlaced(FurtherAndFurtherApart(), options, false).grown_slots, 0u);
}

// Nor a byte more where what they take ends off the devices' boundary.
TEST(PlacedRowsTest, FixedSlotsNeedNoRoomBehindTheTensors) {
  FeedOptions options;
  options.fixed_slots = true;
  options.slot_bytes = 3 * 3001;
  const std::vector<std::vector<PlacedRow>> batches(4,
                                                    {{3001, 0}, {3001, 100'000}, {3001, 200'000}});
  EXPECT_EQ(FeedPlaced(batches, options, false).grown_slots, 0u);
}

class TransferTest : public PipelineTest {
 protected:
  using Order = std::function<Reader(Reader)>;
  static constexpr TransferPlan kPlans[] = {TransferPlan::kAuto, TransferPlan::kMembers,
                                            TransferPlan::kSlabs};

  OpenOptions Fresh() const {
    OpenOptions options = Options();
    options.stripe_bytes = std::size_t{256} << 10;
    options.arena = std::make_shared<PinnedArena>(kArenaBytes);
    // From the beginning: a chain that grows may be read to its end before there is memory for rows
    // that stay where they were read.
    options.arena_bytes = kArenaBytes;
    options.note_records = true;
    return options;
  }
  /// tf.Examples: an image of fixed size, text of any length, a label.
  std::string Examples(std::size_t records, std::size_t image_bytes) {
    const std::string path = directory_.File("examples" + std::to_string(image_bytes));
    RecordWriterResult made = OpenRecordWriter(path, "tfrecord");
    EXPECT_TRUE(made.status.ok());
    ExampleBuilder builder;
    for (std::size_t i = 0; i < records; ++i) {
      std::string image(image_bytes, '\0');
      for (std::size_t at = 0; at < image_bytes; ++at) {
        image[at] = static_cast<char>(i * 7 + at * 31 + at / 256);
      }
      const std::string text(i % 5 * 3000, static_cast<char>('a' + i % 26));
      const std::int64_t label[] = {static_cast<std::int64_t>(i)};
      builder.AddBytes("image", image).AddInts("label", label).AddBytes("text", text);
      EXPECT_TRUE(made.writer->Write(builder.Finish()).ok());
    }
    EXPECT_TRUE(made.writer->Close().ok());
    return path;
  }
  static std::shared_ptr<const Parser> FixedExample(std::size_t image_bytes) {
    return ExampleParser(
        {{"image", kUInt8, {static_cast<std::int64_t>(image_bytes)}}, {"label", kInt64, {}}});
  }
  static std::shared_ptr<const Parser> RaggedExample(std::size_t image_bytes) {
    return ExampleParser({{"image", kUInt8, {static_cast<std::int64_t>(image_bytes)}},
                          {"text", kUInt8, {-1}},
                          {"label", kInt64, {}}});
  }
  static std::vector<std::pair<std::string, Order>> Orders() {
    return {{"as files", [](Reader reader) { return reader; }},
            {"window",
             [](Reader reader) { return Shuffle(std::move(reader), {.window = 30, .seed = 5}); }},
            {"global", [](Reader reader) {
               return Shuffle(std::move(reader), {.seed = 5, .mode = ShuffleMode::kGlobal});
             }}};
  }
  /// Every plan, in every order, against what the CPU copies.
  void ExpectTheSame(const std::function<Reader(const Order&)>& chain, const FeedOptions& options,
                     std::size_t devices, bool leaves = true) {
    for (const auto& [name, order] : Orders()) {
      FeedOptions plain = options;
      plain.transfer = TransferPlan::kBatch;
      const Outcome expected = FeedAll(chain(order), plain, devices);
      EXPECT_EQ(expected.member_bytes + expected.slab_bytes, 0u);
      for (const TransferPlan plan : kPlans) {
        SCOPED_TRACE(testing::Message() << name << ", " << TransferPlanName(plan));
        FeedOptions with = options;
        with.transfer = plan;
        const Outcome outcome = FeedAll(chain(order), with, devices);
        EXPECT_TRUE(outcome == expected)
            << outcome.batches.size() << " batches of " << expected.batches.size() << ", "
            << outcome.end << " for " << expected.end;
        if (!leaves || plan == TransferPlan::kAuto) continue;
        // A window's rows keep a block each: there is memory for few of them.
        const std::uint64_t least = name == "window" ? 0 : outcome.delivered_bytes / 2;
        EXPECT_GT(outcome.member_bytes + outcome.slab_bytes, least);
      }
    }
  }
};

TEST_F(TransferTest, LongFieldsOfOnePhaseComeFromWhereTheyWereRead) {
  const std::string path = Examples(120, 20'000);
  ExpectTheSame(
      [&](const Order& order) {
        return Batch(order(Parse(OpenFiles({path}, Fresh()), FixedExample(20'000))), {.size = 8});
      },
      {}, 2);
}

TEST_F(TransferTest, SoDoRaggedFieldsAndShortOnesBesideThem) {
  const std::string path = Examples(120, 5'000);
  ExpectTheSame(
      [&](const Order& order) {
        return Batch(order(Parse(OpenFiles({path}, Fresh()), RaggedExample(5'000))), {.size = 7});
      },
      {}, 1);
}

TEST_F(TransferTest, RowsAndWholeRecordsAlike) {
  const std::vector<std::string> files = MakeFiles(2, 80, 3000, 40'000);
  ExpectTheSame(
      [&](const Order& order) {
        return Batch(order(Parse(OpenFiles(files, Fresh()), RawParser())), {.size = 9});
      },
      {}, 2);
  const std::string rows = directory_.File("rows.bin");
  WritePatternFile(rows, 150 * 24'008);
  OpenOptions options = Fresh();
  options.format = "rows:24008";
  ExpectTheSame(
      [&](const Order& order) {
        options.arena = Fresh().arena;
        const auto parser = RowsParser({{"label", kInt64, {}}, {"pixels", kUInt8, {24'000}}});
        return Batch(order(Parse(OpenFiles({rows}, options), parser)), {.size = 6});
      },
      {}, 1);
}

TEST_F(TransferTest, EveryDistributionAndLastStep) {
  const std::string path = Examples(75, 18'000);
  for (const Distribution distribution : {Distribution::kRoundRobin, Distribution::kSplit}) {
    for (const LastStep last_step :
         {LastStep::kUneven, LastStep::kDrop, LastStep::kPad, LastStep::kShort}) {
      if (distribution == Distribution::kSplit && last_step == LastStep::kShort) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(distribution) << ", last step "
                                      << static_cast<int>(last_step));
      ExpectTheSame(
          [&](const Order& order) {
            return Batch(order(Parse(OpenFiles({path}, Fresh()), FixedExample(18'000))),
                         {.size = 8});
          },
          {.distribution = distribution, .last_step = last_step}, 3);
    }
  }
}

TEST_F(TransferTest, TransformsWorkOnWhatCameFromWhereItWasRead) {
  const std::string path = Examples(60, 4 * 4 * 3 * 100);
  const auto parser = ExampleParser(
      {{"image", kUInt8, {40, 40, 3}}, {"text", kUInt8, {-1}}, {"label", kInt64, {}}});
  FeedOptions options;
  options.transforms = {NormalizeField{.field = 0, .mean = {10}, .scale = {0.5f}},
                        PadField{.field = 1, .length = 5000}};
  ExpectTheSame(
      [&](const Order& order) {
        return Batch(order(Parse(OpenFiles({path}, Fresh()), parser)), {.size = 5});
      },
      options, 2, false);
}

TEST_F(TransferTest, DamageMeansWhatItMeansOnTheCpu) {
  const std::string path = Examples(90, 16'000);
  std::string bytes = ReadBytes(path);
  for (const std::size_t at : {bytes.size() / 3, bytes.size() / 2}) bytes[at] ^= 4;
  WriteBytes(path, std::as_bytes(std::span(bytes)));
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    for (const bool pad : {false, true}) {
      SCOPED_TRACE(testing::Message() << (pad ? "padded, " : "") << static_cast<int>(on_damage));
      ExpectTheSame(
          [&](const Order& order) {
            OpenOptions options = Fresh();
            options.on_damage = on_damage;
            return Batch(order(Parse(OpenFiles({path}, options), FixedExample(16'000))),
                         {.size = 8, .pad = pad});
          },
          {}, 2, false);
    }
  }
}

// Fewer blocks can be kept than the feed has batches under way: then the CPU copies.
TEST_F(TransferTest, LittleMemoryMeansCopiesAndNeverAHang) {
  const std::string path = Examples(200, 30'000);
  for (const std::size_t mib : {12u, 16u, 24u}) {
    SCOPED_TRACE(testing::Message() << mib << " MiB");
    ExpectTheSame(
        [&](const Order& order) {
          OpenOptions options = Fresh();
          options.arena = std::make_shared<PinnedArena>(mib << 20);
          options.arena_bytes = 0;
          options.cycle = 2;
          return Batch(order(Parse(OpenFiles({path}, options), FixedExample(30'000))), {.size = 4});
        },
        {.last_step = LastStep::kDrop}, 2, false);
  }
}

TEST_F(TransferTest, ReInitAndALateLeaseFindTheirMemory) {
  const std::string path = Examples(80, 20'000);
  const Reader reader = Batch(Parse(OpenFiles({path}, Fresh()), FixedExample(20'000)), {.size = 8});
  const auto backend = EmulatedDevices::Open(1);
  FeedOptions options;
  options.backend = backend;
  options.transfer = TransferPlan::kMembers;
  DeviceFeed feed(reader, options);
  std::string first;
  for (int round = 0; round < 10; ++round) {
    auto lease = feed.Next();
    ASSERT_TRUE(lease.has_value());
    const std::string contents = ContentsOf(&*lease);
    if (round == 0) first = contents;
    EXPECT_EQ(contents, first);
    for (int more = 0; more < round % 4; ++more) ASSERT_TRUE(feed.Next().has_value());
    feed.ReInit();
    EXPECT_EQ(ContentsOf(&*lease), first);
  }
  EXPECT_TRUE(feed.Close().ok());
}

// What the CPU has just copied is in its cache: a second copy costs less than to leave it.
TEST_F(TransferTest, AutoLeavesColdRowsAlone) {
  const std::string path = Examples(120, 20'000);
  for (const auto& [name, order] : Orders()) {
    if (name == "window") continue;  // there is memory for few of its rows
    SCOPED_TRACE(name);
    const auto chain = [&, &order = order] {
      OpenOptions open = Fresh();
      open.io.path = IoPath::kPread;
      return Batch(order(Parse(OpenFiles({path}, open), FixedExample(20'000))), {.size = 8});
    };
    if (!MakeWarm(path)) GTEST_SKIP() << kKeepsNoFiles;
    const Outcome warm = FeedAll(chain(), {}, 1);
    EXPECT_EQ(warm.member_bytes + warm.slab_bytes, 0u);
    const Outcome asked = FeedAll(chain(), {.least_left_bytes = 20'000}, 1);
    EXPECT_GT(asked.member_bytes + asked.slab_bytes, asked.delivered_bytes / 2);
    if (!MakeCold(path)) GTEST_SKIP() << kDropsNoFiles;
    const Reader reader = chain();
    const Outcome cold = FeedAll(reader, {}, 1);
    if (!reader.Stats().io.front().direct) GTEST_SKIP() << "no O_DIRECT here";
    EXPECT_GT(cold.member_bytes + cold.slab_bytes, cold.delivered_bytes / 2);
    EXPECT_TRUE(cold == warm && asked == warm);
  }
}

// Whatever is left, joined or copied by the CPU after all.
TEST_F(TransferTest, WhateverThingsCostTheSameComes) {
  const std::string path = Examples(150, 3'000);
  const TransferCosts costs[] = {
      {.copy_ns_per_kib = TransferCosts::kMostNs},
      {.copy_ns_per_kib = 1e-3},
      {.copy_ns_per_kib = TransferCosts::kMostNs, .member_ns = TransferCosts::kMostNs},
      {.copy_ns_per_kib = TransferCosts::kMostNs, .member_ns = 1, .row_ns = 1e5},
      {.link_ns_per_kib = TransferCosts::kMostNs, .row_ns = 1e-3},
      {.link_ns_per_kib = 1e-3, .member_ns = 1, .row_ns = 1},
  };
  for (const auto& [name, order] : Orders()) {
    const auto feed = [&, &order = order](const FeedOptions& options) {
      OpenOptions open = Fresh();
      open.io.path = IoPath::kPread;  // what is mapped is not left
      return FeedAll(
          Batch(order(Parse(OpenFiles({path}, open), RaggedExample(3'000))), {.size = 7}), options,
          2);
    };
    const Outcome expected = feed({.transfer = TransferPlan::kBatch});
    for (std::size_t i = 0; i < std::size(costs); ++i) {
      SCOPED_TRACE(testing::Message() << name << ", costs " << i);
      const Outcome outcome = feed({.least_left_bytes = 1, .costs = costs[i]});
      EXPECT_TRUE(outcome == expected) << outcome.end << " for " << expected.end;
      const std::uint64_t left = outcome.member_bytes + outcome.slab_bytes;
      if (i == 0) {
        EXPECT_GT(left, 0u);
      }
      if (i == 1) {
        EXPECT_EQ(left, 0u);
      }
    }
  }
}

TEST_F(TransferTest, TheReasonSaysByWhoseCosts) {
  const std::string path = Examples(10, 20'000);
  const auto reason = [&](const FeedOptions& given) {
    FeedOptions options = given;
    options.backend = EmulatedDevices::Open(1);
    DeviceFeed feed(Batch(Parse(OpenFiles({path}, Fresh()), FixedExample(20'000)), {.size = 5}),
                    options);
    while (auto lease = feed.Next()) (void)lease->WaitHost();
    return feed.Stats().devices[0].transfer_reason;
  };
  EXPECT_NE(reason({}).find("by costs of an H200 (defaults)"), std::string::npos) << reason({});
  const std::string given = reason({.costs = {.row_ns = 50}});
  EXPECT_NE(given.find("by the costs given"), std::string::npos) << given;
  EXPECT_EQ(reason({.transfer = TransferPlan::kBatch}), "asked for");
}

TEST_F(TransferTest, CostsThatCannotBeAreRefusedWhenItOpens) {
  FeedOptions options;
  options.backend = EmulatedDevices::Open(1);
  options.costs.member_ns = 0;
  const Reader reader =
      Batch(Parse(OpenFiles({Examples(5, 100)}, Fresh()), FixedExample(100)), {.size = 5});
  try {
    const DeviceFeed feed(reader, options);
    FAIL() << "it opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.status().message().find("member_ns"), std::string::npos);
  }
}

TEST_F(TransferTest, WhatWasTunedForOtherDevicesIsRefusedWhenItOpens) {
  const std::string path = directory_.File("tuned.json");
  const auto tuned_for = [&](const std::string& devices) {
    Tuning tuning;
    tuning.machine = ThisMachine();
    tuning.format = "tfrecord";
    tuning.device_slots = 5;
    tuning.transfer = "members";
    tuning.devices = devices;
    const std::string text = TuningText(tuning);
    WriteBytes(path, std::as_bytes(std::span(text)));
    FeedOptions options = FeedOptions::Tuned(path);
    EXPECT_EQ(options.slots, 5U);
    EXPECT_EQ(options.transfer, TransferPlan::kMembers);
    options.backend = EmulatedDevices::Open(1);
    return options;
  };
  const Reader reader =
      Batch(Parse(OpenFiles({Examples(5, 100)}, Fresh()), FixedExample(100)), {.size = 5});
  try {
    const DeviceFeed feed(reader, tuned_for("cuda: NVIDIA H200"));
    FAIL() << "it opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.status().message().find("NVIDIA H200; device 0 is emu"), std::string::npos)
        << error.status().message();
  }
  EXPECT_NO_THROW(DeviceFeed(reader, tuned_for("emu")));
}

// Each would be a copy of its own, or the CPU's after all.
TEST_F(TransferTest, ShortFieldsOfLongRecordsAreWritten) {
  const std::string path = directory_.File("long_records");
  RecordWriterResult made = OpenRecordWriter(path, "tfrecord");
  ExampleBuilder builder;
  for (std::size_t i = 0; i < 100; ++i) {
    builder.AddBytes("image", std::string(8000, 'i')).AddBytes("text", std::string(3000, 't'));
    ASSERT_TRUE(made.writer->Write(builder.Finish()).ok());
  }
  ASSERT_TRUE(made.writer->Close().ok());
  OpenOptions options = Fresh();
  options.io.path = IoPath::kPread;
  const Reader reader = Batch(
      Parse(OpenFiles({path}, options), ExampleParser({{"text", kUInt8, {3000}}})), {.size = 10});
  FeedOptions feed_options;
  feed_options.backend = EmulatedDevices::Open(1);
  DeviceFeed feed(reader, feed_options);
  while (auto lease = feed.Next()) (void)lease->WaitHost();
  const DeviceFeedStats stats = feed.Stats().devices[0];
  EXPECT_EQ(stats.member_bytes + stats.slab_bytes, 0u);
  EXPECT_EQ(stats.packed_bytes, 0u);
  EXPECT_EQ(stats.transfer, TransferPlan::kBatch);
}

// Whoever reads without taking what is pending has it copied.
TEST_F(TransferTest, APlainReadOfSuchAReaderGetsWholeBatches) {
  const std::string path = Examples(40, 20'000);
  const auto chain = [&] {
    return Batch(Parse(OpenFiles({path}, Fresh()), FixedExample(20'000)), {.size = 8});
  };
  Reader plain = chain();
  Reader leaving = chain();
  ReaderAccess::SessionOf(leaving)->LeaveFields({1024, 1024, false});
  for (int batch = 0; batch < 5; ++batch) {
    const Instance expected = plain.ReadNext();
    const Instance got = leaving.ReadNext();
    ASSERT_EQ(got[0].bytes, expected[0].bytes);
    EXPECT_EQ(std::memcmp(got[0].data, expected[0].data, got[0].bytes), 0);
  }
}

}  // namespace
}  // namespace ringfeed
