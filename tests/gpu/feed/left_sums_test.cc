#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gpu/feed/batch_supply.h"
#include "gpu/feed/feed_core.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/feed/forwarding_backend.h"
#include "tests/gpu/feed/numbered_batches.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

// Checksums that a device takes: what is damaged is seen as if the CPU had found it while framing.

namespace ringfeed {
namespace {

constexpr std::size_t kImageBytes = 20'000;
constexpr std::size_t kSumRecords = 200;

/// All that anybody can see of a feed and its chain.
struct SumsOutcome {
  std::vector<std::string> batches;  ///< numbers, contents, origins, and positions behind them
  std::string end;                   ///< "", or the failure with its place
  std::string feed_position;         ///< at the end, as below
  std::string chain_position;
  std::string counts;
  std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, std::string>> damage;
  std::vector<std::string> reasons;  ///< of each device

  /// Each device; of a group of replicas the first.
  bool devices_took_sums(std::size_t replicas) const {
    for (std::size_t d = 0; d < reasons.size(); d += replicas) {
      if (reasons[d].find("the device took") == std::string::npos) return false;
    }
    return true;
  }
};

void ExpectSameSums(const SumsOutcome& got, const SumsOutcome& expected) {
  EXPECT_EQ(got.batches.size(), expected.batches.size());
  const std::size_t both = std::min(got.batches.size(), expected.batches.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (got.batches[i] == expected.batches[i]) continue;
    ADD_FAILURE() << "batch " << i << " differs: " << got.batches[i].substr(0, 300) << "\n not "
                  << expected.batches[i].substr(0, 300);
    break;
  }
  EXPECT_EQ(got.end, expected.end);
  EXPECT_EQ(got.feed_position, expected.feed_position);
  EXPECT_EQ(got.chain_position, expected.chain_position);
  EXPECT_EQ(got.counts, expected.counts);
  EXPECT_EQ(got.damage, expected.damage);
}

std::string LeaseText(DeviceLease* lease) {
  std::string text =
      std::to_string(lease->number()) + ", rows " + std::to_string(lease->valid_rows()) +
      " of batch " + std::to_string(lease->origin().batch) + ", pass " +
      std::to_string(lease->origin().pass) + ", records" + RangesText(lease->origin().records) +
      ", damaged" + RangesText(lease->origin().damaged) + ", ";
  for (const Tensor& tensor : lease->WaitHost()) {
    text += ShapeToString(tensor.shape);
    text.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
  }
  return text;
}

/// What it does with a chain.
struct SumsDrive {
  std::size_t devices = 1;
  std::size_t slots = 3;
  TransferPlan transfer = TransferPlan::kBatch;
  Distribution distribution = Distribution::kRoundRobin;
  std::size_t replicas = 0;
  LastStep last_step = LastStep::kUneven;
  bool fixed_slots = false;
  bool simulated = false;
  DeviceStage stage{};
  std::optional<std::size_t> restore_at{};  ///< behind so many leases it is restored elsewhere
};

class LeftSumsTest : public PipelineTest {
 protected:
  using Chain = std::function<Reader(OnDamage)>;
  static constexpr TransferPlan kLeavingPlans[] = {TransferPlan::kAuto, TransferPlan::kMembers,
                                                   TransferPlan::kSlabs};

  OpenOptions Fresh(OnDamage on_damage) const {
    OpenOptions options = Options();
    options.stripe_bytes = std::size_t{256} << 10;
    options.arena = std::make_shared<PinnedArena>(kArenaBytes);
    options.note_records = true;
    options.on_damage = on_damage;
    options.threads = 2;
    options.io.path = IoPath::kPread;
    return options;
  }

  /// tf.Examples: an image, text of any length, a label. Of those records a bit is flipped:
  /// `depth` of the record's bytes behind its beginning.
  std::string Damaged(const std::string& name, const std::vector<std::size_t>& records,
                      double depth = 0.5) {
    const std::string path = directory_.File(name);
    RecordWriterResult made = OpenRecordWriter(path, "tfrecord");
    EXPECT_TRUE(made.status.ok());
    ExampleBuilder builder;
    std::vector<std::size_t> sizes;
    std::string pixels(kImageBytes + kSumRecords, '\0');
    for (std::size_t at = 0; at < pixels.size(); ++at) {
      pixels[at] = static_cast<char>(at * 31 + at / 256);
    }
    for (std::size_t i = 0; i < kSumRecords; ++i) {
      const std::string_view image = std::string_view(pixels).substr(i, kImageBytes);
      const std::int64_t label[] = {static_cast<std::int64_t>(i)};
      builder.AddInts("label", label).AddBytes("image", image).AddBytes("text", Text(i));
      const auto record = builder.Finish();
      sizes.push_back(record.size());
      EXPECT_TRUE(made.writer->Write(record).ok());
    }
    EXPECT_TRUE(made.writer->Close().ok());
    std::string bytes = ReadBytes(path);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (std::find(records.begin(), records.end(), i) != records.end()) {
        const auto at = static_cast<std::size_t>(depth * static_cast<double>(sizes[i] - 1));
        bytes[begin + 12 + at] = static_cast<char>(bytes[begin + 12 + at] ^ 4);
      }
      begin += sizes[i] + 16;
    }
    WriteBytes(path, std::as_bytes(std::span(bytes)));
    return path;
  }
  static std::string Text(std::size_t i) {
    return std::string(i % 5 * 700, static_cast<char>('a' + i % 26));
  }
  static std::shared_ptr<const Parser> FixedParser() {
    return ExampleParser(
        {{"image", kUInt8, {static_cast<std::int64_t>(kImageBytes)}}, {"label", kInt64, {}}});
  }
  static std::shared_ptr<const Parser> RaggedParser() {
    return ExampleParser({{"image", kUInt8, {-1}}, {"text", kUInt8, {-1}}, {"label", kInt64, {}}});
  }

  static void TakeAll(DeviceFeed* feed, SumsOutcome* outcome, std::optional<std::size_t> most) {
    while (!most || outcome->batches.size() < *most) {
      DeviceLease lease;
      Status status;
      const ReadResult result = feed->TryNext(&lease, &status);
      if (result == ReadResult::kFailed) outcome->end = status.ToString();
      if (result != ReadResult::kRecord) return;
      outcome->batches.push_back(LeaseText(&lease) + " " + feed->Position());
    }
  }

  static std::string CountsOf(const PipelineStats& stats) {
    std::string text;
    for (const std::uint64_t count :
         {stats.records, stats.payload_bytes, stats.damaged_records, stats.dropped_records,
          stats.lost_ranges, stats.filtered_records, stats.passes_ended, stats.batches,
          stats.batch_payload_bytes}) {
      text += " " + std::to_string(count);
    }
    return text;
  }

  static FeedOptions OptionsOf(const SumsDrive& drive,
                               const std::shared_ptr<EmulatedDevices>& backend) {
    FeedOptions options;
    options.backend = backend;
    options.slots = drive.slots;
    options.transfer = drive.transfer;
    // By itself it leaves no row of a file in the page cache.
    options.least_left_bytes = drive.transfer == TransferPlan::kAuto ? 2048 : 0;
    options.distribution = drive.distribution;
    options.stage = drive.stage;
    options.replicas = drive.replicas;
    options.last_step = drive.last_step;
    options.fixed_slots = drive.fixed_slots;
    return options;
  }

  static SumsOutcome Run(const std::function<Reader()>& chain, const SumsDrive& drive) {
    EmulatedOptions emulated;
    emulated.devices.resize(drive.devices);
    emulated.simulated = drive.simulated;
    if (drive.simulated) emulated.policy = SchedulePolicy::kRandom;
    const auto backend = EmulatedDevices::Open(emulated);
    SumsOutcome outcome;
    Reader reader = chain();
    {
      auto feed = std::make_unique<DeviceFeed>(reader, OptionsOf(drive, backend));
      TakeAll(feed.get(), &outcome, drive.restore_at);
      if (drive.restore_at) {
        const std::string position = feed->Position();
        EXPECT_TRUE(feed->Close().ok());
        feed.reset();
        reader = chain();
        reader.Restore(position);
        feed = std::make_unique<DeviceFeed>(reader, OptionsOf(drive, backend));
        TakeAll(feed.get(), &outcome, std::nullopt);
      }
      outcome.feed_position = feed->Position();
      const FeedStats stats = feed->Stats();
      for (const DeviceFeedStats& device : stats.devices) {
        outcome.reasons.push_back(device.transfer_reason);
      }
      outcome.counts = std::to_string(stats.dropped_rows) + " dropped, " +
                       std::to_string(stats.repeated_rows) + " repeated;";
      EXPECT_TRUE(feed->Close().ok());
    }
    outcome.chain_position = reader.Position();
    const PipelineStats stats = reader.Stats();
    outcome.counts += CountsOf(stats);
    for (const DamagedRange& range : stats.damage) {
      outcome.damage.emplace_back(range.file, range.begin, range.end, range.reason);
    }
    std::sort(outcome.damage.begin(), outcome.damage.end());
    EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
    return outcome;
  }

  /// Whatever the plan, what the CPU brings. `takes`: and the device takes sums, or takes none;
  /// none: that differs from run to run. A run may have framed all before one good record is
  /// planned, and then leaves no sum: of some runs one does.
  static void ExpectAsByCpu(const Chain& chain, SumsDrive drive, std::optional<bool> takes,
                            std::vector<OnDamage> policies = {OnDamage::kFail, OnDamage::kSkip},
                            std::span<const TransferPlan> plans = kLeavingPlans) {
    for (const OnDamage on_damage : policies) {
      drive.transfer = TransferPlan::kBatch;
      const auto make = [&] { return chain(on_damage); };
      const SumsOutcome expected = Run(make, drive);
      for (const TransferPlan plan : plans) {
        SCOPED_TRACE(testing::Message() << TransferPlanName(plan) << ", "
                                        << (on_damage == OnDamage::kFail ? "fail" : "skip"));
        drive.transfer = plan;
        SumsOutcome got = Run(make, drive);
        ExpectSameSums(got, expected);
        // A failure may come before there is anything to leave.
        if (!takes || (*takes && expected.batches.size() < 16)) continue;
        const std::size_t replicas = std::max<std::size_t>(drive.replicas, 1);
        for (int again = 0; *takes && !got.devices_took_sums(replicas) && again < 10; ++again) {
          got = Run(make, drive);
          ExpectSameSums(got, expected);
        }
        EXPECT_EQ(got.devices_took_sums(replicas), *takes) << got.reasons[0];
      }
    }
  }

  static std::vector<std::pair<std::string, std::vector<std::size_t>>> Damages() {
    std::vector<std::size_t> all(kSumRecords);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    if (kSanitized) {  // for time
      return {{"none", {}}, {"several_of_a_batch", {145, 146, 149}}, {"all", all}};
    }
    return {{"none", {}},
            {"first", {0}},
            {"last", {kSumRecords - 1}},
            {"middle", {kSumRecords / 2}},
            {"first_of_a_batch", {136}},
            {"last_of_a_batch", {143}},
            {"several_of_a_batch", {145, 146, 149}},
            {"a_whole_batch", {152, 153, 154, 155, 156, 157, 158, 159}},
            {"two_whole_batches",
             {144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 170}},
            {"the_last_batch", {192, 193, 194, 195, 196, 197, 198, 199}},
            {"all_but_the_first", {all.begin() + 1, all.end()}},
            {"all", all}};
  }
};

TEST_F(LeftSumsTest, DamageAnywhereInFileOrder) {
  for (const auto& [name, records] : Damages()) {
    SCOPED_TRACE(name);
    const std::string path = Damaged(name, records);
    // Where all that comes first is damaged, sums are taken early.
    const bool takes = records.size() < kSumRecords - 1;
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()), {.size = 8});
        },
        {}, takes || name == "all_but_the_first");
  }
}

TEST_F(LeftSumsTest, DamageAnywhereInAnOrderByNumber) {
  for (const auto& [name, records] : Damages()) {
    SCOPED_TRACE(name);
    const std::string path = Damaged(name, records);
    // Whether one good record is planned before the others are framed differs.
    std::optional<bool> takes = records.size() < kSumRecords;
    if (name == "all_but_the_first") takes.reset();
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          Reader reader = Shuffle(OpenFiles({path}, Fresh(on_damage)),
                                  {.seed = 5, .mode = ShuffleMode::kGlobal});
          return Batch(Parse(std::move(reader), RaggedParser()), {.size = 8});
        },
        {}, takes);
  }
}

// What a stage made of damaged bytes, or refused of them, is seen by nobody: it is called again.
TEST_F(LeftSumsTest, DamageThatAStageMeetsFirst) {
  DeviceStage stage;
  stage.outputs = {{DType::kUInt8, {static_cast<std::int64_t>(kImageBytes)}}};
  stage.on_host = [](const StageCall& call) {
    const auto pixels = call.fields[0].Values<std::uint8_t>();
    const auto labels = call.fields[1].Values<std::int64_t>();
    std::memcpy(call.output(0), pixels.data(), pixels.size());
    for (std::size_t row = 0; row < labels.size(); ++row) {
      const std::size_t at = static_cast<std::size_t>(labels[row]) + kImageBytes / 2;
      const auto expected = static_cast<std::uint8_t>(static_cast<char>(at * 31 + at / 256));
      if (pixels[row * kImageBytes + kImageBytes / 2] != expected) {
        return Status(StatusCode::kUserError, "row " + std::to_string(row) + " is wrong");
      }
    }
    return Status();
  };
  for (const auto& [name, records] : Damages()) {
    SCOPED_TRACE(name);
    const std::string path = Damaged(name, records);
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()), {.size = 8});
        },
        {.stage = stage}, std::nullopt);
  }
}

// In front of a failure there is no empty batch, whoever found it.
TEST_F(LeftSumsTest, WhereEmptyBatchesAreShown) {
  for (const std::size_t record : {160U, 163U, 167U}) {
    const std::string path = Damaged("shown" + std::to_string(record), {record});
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()),
                       {.size = 8, .empty_batches = true});
        },
        {}, true);
  }
}

TEST_F(LeftSumsTest, WhereverInTheRecordTheBitIs) {
  for (const double depth : {0.0, 0.0002, 0.0005, 0.001, 0.002, 0.3, 0.96, 0.999, 1.0}) {
    if (kSanitized && depth > 0.001 && depth < 1) continue;  // for time
    SCOPED_TRACE(depth);
    const std::string path = Damaged("depth" + std::to_string(depth), {70, 100, 141, 180}, depth);
    for (const auto& parser : {FixedParser(), RaggedParser()}) {
      ExpectAsByCpu(
          [&](OnDamage on_damage) {
            return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), parser), {.size = 8});
          },
          {}, true);
    }
  }
}

TEST_F(LeftSumsTest, PassesRestsAndFewSlots) {
  const std::string path = Damaged("passes", {3, 110, 131, 198, 199});
  for (const bool drop : {false, true}) {
    for (const std::size_t slots : {2u, 8u}) {
      SCOPED_TRACE(testing::Message() << (drop ? "dropped rests, " : "") << slots << " slots");
      ExpectAsByCpu(
          [&](OnDamage on_damage) {
            Reader reader = Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser());
            return MultiPass(Batch(std::move(reader), {.size = 7, .drop_remainder = drop}), 3);
          },
          {.slots = slots}, true, {OnDamage::kSkip});
    }
  }
}

TEST_F(LeftSumsTest, AFailureInALaterPassOrInARestThatIsDropped) {
  for (const std::size_t record : {110u, 197u, 199u}) {
    if (kSanitized && record == 197) continue;  // for time
    const std::string path = Damaged("later" + std::to_string(record), {record});
    for (const bool drop : {false, true}) {
      SCOPED_TRACE(testing::Message() << record << (drop ? ", dropped" : ""));
      ExpectAsByCpu(
          [&](OnDamage on_damage) {
            Reader reader = Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser());
            return Batch(MultiPass(std::move(reader), 2), {.size = 11, .drop_remainder = drop});
          },
          {}, true);
    }
  }
}

TEST_F(LeftSumsTest, SeveralFilesInTurn) {
  std::vector<std::string> paths;
  for (std::size_t file = 0; file < 3; ++file) {
    paths.push_back(Damaged("turn" + std::to_string(file), {20 + 50 * file, 120 + file}));
  }
  ExpectAsByCpu(
      [&](OnDamage on_damage) {
        return Batch(Parse(OpenFiles(paths, Fresh(on_damage)), RaggedParser()), {.size = 8});
      },
      {}, true);
}

// Whichever device has the batch before, a batch is settled after it.
TEST_F(LeftSumsTest, OverSeveralDevices) {
  const SumsDrive drives[] = {
      {.devices = 2},
      {.devices = 3, .slots = 2},
      {.devices = 2, .distribution = Distribution::kSplit},
      {.devices = 2, .distribution = Distribution::kReplicate, .replicas = 2},
      {.devices = 4, .distribution = Distribution::kReplicate, .replicas = 2},
  };
  for (const SumsDrive& drive : drives) {
    for (const auto& [name, records] : Damages()) {
      // For time; where whole batches are lost, most differs.
      if (&drive != &drives[0] && name.find("of_a_batch") == std::string::npos &&
          name.find("whole_batches") == std::string::npos) {
        continue;
      }
      SCOPED_TRACE(testing::Message() << name << ", " << drive.devices << " devices, "
                                      << static_cast<int>(drive.distribution));
      const std::string path = Damaged(name, records);
      std::optional<bool> takes = true;
      // Most batches come to nothing, and the CPU has to see that.
      if (records.size() >= kSumRecords - 1) takes.reset();
      ExpectAsByCpu(
          [&](OnDamage on_damage) {
            return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()), {.size = 8});
          },
          drive, takes);
    }
  }
}

constexpr std::array kEvenLastSteps{LastStep::kDrop, LastStep::kPad, LastStep::kShort};

std::string DriveText(const SumsDrive& drive) {
  return std::to_string(drive.devices) + " devices, distribution " +
         std::to_string(static_cast<int>(drive.distribution)) + ", last step " +
         std::to_string(static_cast<int>(drive.last_step));
}

// 23 batches, the last one of 2 rows: with 2 and with 3 devices the last step lacks one.
TEST_F(LeftSumsTest, EveryLastStepWhereverTheDamageIs) {
  const std::pair<const char*, std::vector<std::size_t>> damages[] = {
      {"even_none", {}},
      {"even_first", {0}},
      {"even_first_batches", {4, 13, 22}},
      {"even_first_batch_gone", {0, 1, 2, 3, 4, 5, 6, 7, 8}},
      {"even_middle", {103}},
      {"even_first_of_a_batch", {99, 126}},
      {"even_whole_batch", {99, 100, 101, 102, 103, 104, 105, 106, 107, 130}},
      {"even_of_the_last_step", {190, 197}},
      {"even_last_but_one_gone", {189, 190, 191, 192, 193, 194, 195, 196, 197}},
      {"even_last_batch", {198}},
      {"even_last_record", {199}},
      {"even_last_batch_gone", {198, 199}},
      {"even_last_batches_gone", {189, 190, 191, 192, 193, 194, 195, 196, 197, 198, 199}},
  };
  std::size_t turn = 0;
  for (const auto& [name, records] : damages) {
    const std::string path = Damaged(name, records);
    ++turn;
    for (const std::size_t kind : {0U, 1U, 2U}) {
      for (const std::size_t last : {0U, 1U, 2U}) {
        if (kSanitized && (turn + kind + 2 * last) % 3 != 0) continue;  // for time
        SumsDrive drive = {.devices = 1 + (turn + kind + last) % 3,
                           .distribution = static_cast<Distribution>(kind),
                           .last_step = kEvenLastSteps[last]};
        if (drive.distribution == Distribution::kReplicate) {
          drive.devices *= 2;
          drive.replicas = 2;
        }
        SCOPED_TRACE(name + (", " + DriveText(drive)));
        ExpectAsByCpu(
            [&](OnDamage on_damage) {
              return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()), {.size = 9});
            },
            drive, true, {OnDamage::kFail, OnDamage::kSkip},
            std::span(kLeavingPlans).subspan((turn + kind) % 3, 1));
      }
    }
  }
}

// Passes of one batch, or of two, of which only the first may be whole.
TEST_F(LeftSumsTest, EveryLastStepOfPassesOfFewBatches) {
  const std::string path = Damaged("even_passes", {3, 110, 131, 198, 199});
  for (const std::size_t size : {120U, 250U}) {
    for (const Distribution distribution : {Distribution::kRoundRobin, Distribution::kSplit}) {
      for (const LastStep last_step : kEvenLastSteps) {
        const SumsDrive drive = {
            .devices = 2, .distribution = distribution, .last_step = last_step};
        SCOPED_TRACE(std::to_string(size) + " rows, " + DriveText(drive));
        ExpectAsByCpu(
            [&](OnDamage on_damage) {
              Reader reader = Parse(OpenFiles({path}, Fresh(on_damage)), RaggedParser());
              return MultiPass(Batch(std::move(reader), {.size = size}), 3);
            },
            drive, std::nullopt);
      }
    }
  }
}

// In passes, with ragged rows, in fixed slots, restored, and with empty batches shown.
TEST_F(LeftSumsTest, EveryLastStepOfOtherChains) {
  const std::string path =
      Damaged("even_others", {3, 110, 131, 144, 145, 146, 147, 148, 149, 150, 151, 152, 198, 199});
  const std::vector<OnDamage> both = {OnDamage::kFail, OnDamage::kSkip};
  std::size_t turn = 0;
  for (const Distribution distribution : {Distribution::kRoundRobin, Distribution::kSplit}) {
    for (const LastStep last_step : kEvenLastSteps) {
      for (const bool shown : {false, true}) {
        SumsDrive drive = {.devices = 2, .distribution = distribution, .last_step = last_step};
        SCOPED_TRACE(DriveText(drive));
        const auto plan = std::span(kLeavingPlans).subspan(turn++ % 3, 1);
        const Chain chain = [&](OnDamage on_damage) {
          Reader reader = Parse(OpenFiles({path}, Fresh(on_damage)), RaggedParser());
          return MultiPass(Batch(std::move(reader), {.size = 9, .empty_batches = shown}), 2);
        };
        ExpectAsByCpu(chain, drive, true, both, plan);
        drive.restore_at = 20;
        ExpectAsByCpu(chain, drive, true, {OnDamage::kSkip}, plan);
        drive.restore_at.reset();
        drive.fixed_slots = true;
        drive.slots = 2;
        ExpectAsByCpu(chain, drive, true, {OnDamage::kSkip}, plan);
        drive.fixed_slots = false;
        drive.simulated = true;
        ExpectAsByCpu(chain, drive, true, both, plan);
      }
    }
  }
}

TEST_F(LeftSumsTest, OverSeveralDevicesWhereEmptyBatchesAreShown) {
  const std::string path =
      Damaged("shown_by_two", {136, 137, 138, 139, 140, 141, 142, 143, 160, 170, 199});
  ExpectAsByCpu(
      [&](OnDamage on_damage) {
        return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()),
                     {.size = 8, .empty_batches = true});
      },
      {.devices = 2}, true);
}

TEST_F(LeftSumsTest, OverSeveralDevicesInPassesAndRestored) {
  const std::string path =
      Damaged("passes_of_two", {90, 110, 136, 137, 138, 139, 140, 141, 142, 143, 199});
  ExpectAsByCpu(
      [&](OnDamage on_damage) {
        Reader reader = Parse(OpenFiles({path}, Fresh(on_damage)), RaggedParser());
        return MultiPass(Batch(std::move(reader), {.size = 8}), 2);
      },
      {.devices = 2}, true, {OnDamage::kSkip});
  for (const std::size_t at : {3u, 16u, 17u}) {
    SCOPED_TRACE(at);
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()), {.size = 8});
        },
        {.devices = 2, .restore_at = at}, true, {OnDamage::kSkip});
  }
}

TEST_F(LeftSumsTest, OnSeveralSimulatedDevicesInAnyOrderOfEvents) {
  const std::string path = Damaged("simulated_two", {90, 117, 118, 160, 161});
  for (const Distribution distribution :
       {Distribution::kRoundRobin, Distribution::kSplit, Distribution::kReplicate}) {
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), RaggedParser()), {.size = 8});
        },
        {.devices = 2, .distribution = distribution, .simulated = true}, std::nullopt);
  }
}

// Then its batches wait for the device that has the one before them.
TEST_F(LeftSumsTest, ADeviceWhoseLeasesAreKeptIsNamedToTheLoopOfTheOther) {
  const std::string path = Damaged("kept", {});
  EmulatedOptions emulated;
  emulated.devices.resize(2);
  const auto backend = EmulatedDevices::Open(emulated);
  FeedOptions options =
      OptionsOf({.devices = 2, .slots = 2, .transfer = TransferPlan::kMembers}, backend);
  options.patience_ms = 200;
  DeviceFeed feed(
      Batch(Parse(OpenFiles({path}, Fresh(OnDamage::kFail)), FixedParser()), {.size = 8}), options);
  std::jthread other([&] {
    std::array<DeviceLease, 2> kept;
    Status status;
    for (DeviceLease& lease : kept) {
      EXPECT_EQ(feed.TryNext(0, &lease, &status), ReadResult::kRecord);
    }
    // Batches 1 and 3 wait for none of device 0 any more; 5 waits for 4, which has no slot.
    DeviceLease lease;
    ReadResult result = ReadResult::kRecord;
    while (result == ReadResult::kRecord) result = feed.TryNext(1, &lease, &status);
    EXPECT_EQ(result, ReadResult::kFailed);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_NE(status.message().find("the batches of device 0 are not taken"), std::string::npos)
        << status.ToString();
  });
  other.join();
  EXPECT_TRUE(feed.Close().ok());
}

// Batches without sums wait for no device, even if a chain leaves what it has unsettled.
TEST_F(LeftSumsTest, WithoutSumsADeviceServesAllThatItHasWhileNobodyTakesTheOthers) {
  const std::string path = directory_.File("rows");
  const std::string bytes(400, 'r');
  WriteBytes(path, std::as_bytes(std::span(bytes)));
  OpenOptions files = Fresh(OnDamage::kFail);
  files.format = "rows:4";
  FeedOptions options = OptionsOf({.devices = 2, .transfer = TransferPlan::kMembers},
                                  EmulatedDevices::Open({.devices = {{}, {}}}));
  options.patience_ms = 5'000;
  DeviceFeed feed(Batches(OpenFiles({path}, files), 10), options);
  for (std::size_t device = 0; device < 2; ++device) {
    for (std::size_t batch = 0; batch < 5; ++batch) {
      DeviceLease lease;
      Status status;
      ASSERT_EQ(feed.TryNext(device, &lease, &status), ReadResult::kRecord) << status.ToString();
      EXPECT_EQ(lease.number(), 2 * batch + device);
    }
    DeviceLease lease;
    Status status;
    EXPECT_EQ(feed.TryNext(device, &lease, &status), ReadResult::kEnd) << status.ToString();
  }
}

// Also at the end of the data, which is told after all sums are known.
TEST_F(LeftSumsTest, ADeviceThatNobodyTakesIsNamedToTheLoopOfTheOther) {
  const std::string path = Damaged("a", {});
  for (const std::size_t rows : {8u, 29u, 34u}) {
    FeedOptions options = OptionsOf({.devices = 2,
                                     .slots = 2,
                                     .transfer = TransferPlan::kMembers,
                                     .last_step = LastStep::kShort},
                                    EmulatedDevices::Open({.devices = {{}, {}}}));
    options.patience_ms = 100;
    const Reader chain =
        Batch(Parse(OpenFiles({path}, Fresh(OnDamage::kFail)), FixedParser()), {.size = rows});
    DeviceFeed feed(chain, options);
    // The last step is spread over both.
    const std::uint64_t batches = (kSumRecords + 2 * rows - 1) / (2 * rows) * 2;
    std::uint64_t taken[2] = {0, 0};
    Status status;
    const auto take = [&](std::size_t device) {
      DeviceLease lease;
      const ReadResult result = feed.TryNext(device, &lease, &status);
      if (result == ReadResult::kRecord) ++taken[device];
      return result;
    };
    ReadResult first = ReadResult::kRecord;
    while (first == ReadResult::kRecord) first = take(0);
    ASSERT_EQ(first, ReadResult::kFailed);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_NE(status.message().find("batches of device 1 are not taken"), std::string::npos)
        << status.ToString();
    while (taken[0] + taken[1] < batches) {
      ASSERT_EQ(take(taken[1] < taken[0] ? 1 : 0), ReadResult::kRecord) << status.ToString();
    }
    EXPECT_EQ(take(0), ReadResult::kEnd);
    EXPECT_EQ(take(1), ReadResult::kEnd);
  }
}

// Here its reading thread waits until the batches before the last step are settled.
TEST_F(LeftSumsTest, AFeedThatNobodyTakesFromCloses) {
  const std::string path = Damaged("a", {});
  const FeedOptions options = OptionsOf(
      {.devices = 2, .slots = 2, .transfer = TransferPlan::kMembers, .last_step = LastStep::kPad},
      EmulatedDevices::Open({.devices = {{}, {}}}));
  DeviceFeed feed(
      Batch(Parse(OpenFiles({path}, Fresh(OnDamage::kFail)), FixedParser()), {.size = 29}),
      options);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(feed.Close().ok());
}

TEST_F(LeftSumsTest, InFixedSlots) {
  const std::string path = Damaged("fixed", {90, 100, 117, 118, 119, 160});
  for (const auto& parser : {FixedParser(), RaggedParser()}) {
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), parser), {.size = 8});
        },
        {.devices = 2, .fixed_slots = true}, true);
  }
}

// Behind a window damage that is skipped may be found late; damage that fails may not.
TEST_F(LeftSumsTest, BehindAWindow) {
  const std::string path = Damaged("window", {1, 50, 120, 121, 160});
  const Chain chain = [&](OnDamage on_damage) {
    Reader reader = Shuffle(OpenFiles({path}, Fresh(on_damage)), {.window = 30, .seed = 5});
    return Batch(Parse(std::move(reader), FixedParser()), {.size = 8});
  };
  const auto fail = [&] { return chain(OnDamage::kFail); };
  SumsDrive drive;
  const SumsOutcome expected = Run(fail, drive);
  drive.transfer = TransferPlan::kMembers;
  const SumsOutcome got = Run(fail, drive);
  ExpectSameSums(got, expected);
  EXPECT_FALSE(got.devices_took_sums(1));
  EXPECT_NE(got.reasons[0].find("a shuffle holds records"), std::string::npos) << got.reasons[0];
  drive.transfer = TransferPlan::kBatch;
  const auto skip = [&] { return chain(OnDamage::kSkip); };
  const SumsOutcome skipped = Run(skip, drive);
  drive.transfer = TransferPlan::kMembers;
  ExpectSameSums(Run(skip, drive), skipped);
}

TEST_F(LeftSumsTest, RestoredInTheMiddle) {
  const std::string path = Damaged("restored", {90, 100, 117, 118, 119, 160});
  for (const std::size_t at : {0u, 1u, 11u, 12u, 14u}) {
    if (kSanitized && at % 11 == 1) continue;  // for time
    SCOPED_TRACE(at);
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()), {.size = 8});
        },
        {.restore_at = at}, true, {OnDamage::kSkip});
    ExpectAsByCpu(
        [&](OnDamage on_damage) {
          Reader reader = Shuffle(OpenFiles({path}, Fresh(on_damage)),
                                  {.seed = 6, .mode = ShuffleMode::kGlobal});
          return Batch(Parse(std::move(reader), FixedParser()), {.size = 8});
        },
        {.restore_at = at}, true, {OnDamage::kSkip});
  }
}

TEST_F(LeftSumsTest, OnSimulatedDevicesInAnyOrderOfEvents) {
  const std::string path = Damaged("simulated", {90, 117, 118, 160, 161});
  ExpectAsByCpu(
      [&](OnDamage on_damage) {
        return Batch(Parse(OpenFiles({path}, Fresh(on_damage)), RaggedParser()), {.size = 8});
      },
      {.simulated = true}, true);
}

/// Says that an event is done as soon as it was recorded after a copy to the host.
class HastyFetches final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status CopyToHost(DeviceStream stream, std::byte* to, const std::byte* from,
                    std::size_t bytes) override {
    fetches_ = stream;
    return ForwardingBackend::CopyToHost(stream, to, from, bytes);
  }
  Status Record(DeviceEvent event, DeviceStream stream) override {
    if (stream == fetches_) hasty_.push_back(event);
    return ForwardingBackend::Record(event, stream);
  }
  Status Query(DeviceEvent event, bool* done) override {
    *done = std::find(hasty_.begin(), hasty_.end(), event) != hasty_.end();
    return *done ? Status() : ForwardingBackend::Query(event, done);
  }

 private:
  DeviceStream fetches_;
  std::vector<DeviceEvent> hasty_;
};

#if defined(__SANITIZE_ADDRESS__)
constexpr std::array kHasty{
    false};  // the batch's memory is free by then, and AddressSanitizer says so
#else
constexpr std::array kHasty{false, true};
#endif

// A lease that did not wait for the sums: they are read while the device still brings them.
TEST_F(LeftSumsTest, ALeaseThatDoesNotWaitForTheSumsIsNoticed) {
  const std::string path = Damaged("left_out", {});
  for (const SchedulePolicy policy :
       {SchedulePolicy::kTimed, SchedulePolicy::kLazy, SchedulePolicy::kRandom}) {
    for (const bool hasty : kHasty) {
      EmulatedOptions emulated;
      emulated.simulated = true;
      emulated.policy = policy;
      const auto backend = EmulatedDevices::Open(emulated);
      FeedOptions options;
      options.backend = backend;
      if (hasty) options.backend = std::make_shared<HastyFetches>(backend);
      options.devices = {0};
      options.transfer = TransferPlan::kMembers;
      const Reader reader =
          Batch(Parse(OpenFiles({path}, Fresh(OnDamage::kFail)), FixedParser()), {.size = 8});
      const auto core = FeedCore::Start(SupplyOf(reader, options), options);
      DeviceLease lease;
      Status status;
      while (core->TryNext(&lease, &status) == ReadResult::kRecord) (void)lease.WaitHost();
      lease.Release();
      (void)core->Close();
      EXPECT_EQ(backend->offences().empty(), !hasty) << static_cast<int>(policy);
    }
  }
}

struct EarlyCase {
  const char* name;
  const char* why;
  SumsDrive drive;
  std::function<void(OpenOptions*, BatchOptions*)> change;
};

TEST_F(LeftSumsTest, WhatCannotBeFoundLateIsFoundEarlyAndTheReasonSaysSo) {
  const std::string path = Damaged("early", {90, 117, 118, 160});
  const EarlyCase cases[] = {
      {"limit", "max_damaged", {}, [](OpenOptions* o, BatchOptions*) { o->max_damaged = 3; }},
      {"padded", "padded", {}, [](OpenOptions*, BatchOptions* b) { b->pad = true; }},
  };
  for (const EarlyCase& test : cases) {
    SCOPED_TRACE(test.name);
    const Chain chain = [&](OnDamage on_damage) {
      OpenOptions options = Fresh(on_damage);
      BatchOptions batch{.size = 8};
      test.change(&options, &batch);
      return Batch(Parse(OpenFiles({path}, options), FixedParser()), batch);
    };
    ExpectAsByCpu(chain, test.drive, false);
    SumsDrive drive = test.drive;
    drive.transfer = TransferPlan::kSlabs;
    const SumsOutcome got = Run([&] { return chain(OnDamage::kSkip); }, drive);
    EXPECT_NE(got.reasons[0].find(test.why), std::string::npos) << got.reasons[0];
  }
}

// Whoever reads without settling what is left has the CPU take it.
TEST_F(LeftSumsTest, APlainReadTakesWhatIsLeft) {
  const std::string path = Damaged("plain", {90, 136, 137, 138, 139, 140, 141, 142, 143, 150});
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    std::vector<std::string> outcomes;
    for (const bool leaves : {false, true}) {
      Reader reader = Batch(Parse(OpenFiles({path}, Fresh(on_damage)), FixedParser()), {.size = 8});
      if (leaves) ReaderAccess::SessionOf(reader)->LeaveFields({1024, 1024, false, true});
      std::string all;
      Instance instance;
      BatchOrigin origin;
      while (reader.TryReadNext(&instance, {.origin = &origin}) == ReadResult::kRecord) {
        all += RangesText(origin.records) + ";" + RangesText(origin.damaged);
        for (const Tensor& tensor : instance) {
          all.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
        }
      }
      all += reader.status().ToString() + CountsOf(reader.Stats()) + reader.Position();
      outcomes.push_back(std::move(all));
    }
    EXPECT_TRUE(outcomes[0] == outcomes[1]) << static_cast<int>(on_damage);
  }
}

}  // namespace
}  // namespace ringfeed
