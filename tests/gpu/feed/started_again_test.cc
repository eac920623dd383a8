#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/devices/timeline.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

// Feeds that are started again and again, with leases that stay out: what comes is a matter of the
// data and of where it was started, not of the way that bytes take, of devices or of timing.

namespace ringfeed {
namespace {

constexpr std::size_t kFrames = 130;
constexpr std::size_t kFrameBytes = 10 * 12 * 3;

/// What may matter.
struct StartedCase {
  std::uint64_t seed = 0;
  std::size_t devices = 1;
  Distribution distribution = Distribution::kRoundRobin;
  LastStep last_step = LastStep::kUneven;
  std::size_t batch = 6;
  std::uint64_t passes = 1;
  ShuffleMode mode = ShuffleMode::kNone;
  OnDamage on_damage = OnDamage::kFail;
  bool damaged = false;
  bool transformed = false;
  bool even = false;  ///< no ragged field
};
/// What may not.
struct StartedWay {
  std::size_t slots = 3;
  TransferPlan transfer = TransferPlan::kBatch;
  EmulatedOptions emulated{};
  bool fixed_slots = false;
  bool with_timeline = false;
};

StartedCase CaseOf(std::uint64_t seed, std::mt19937_64* random) {
  const auto draw = [random](std::uint64_t below) { return (*random)() % below; };
  StartedCase c;
  c.seed = seed;
  if (draw(2) == 0) {  // else what is left to the device would seldom be
    c.devices = 1 + draw(3);
    c.distribution = draw(2) == 0 ? Distribution::kSplit : Distribution::kRoundRobin;
    c.last_step = static_cast<LastStep>(draw(4));
  }
  c.batch = std::vector<std::size_t>{2, 6, 25, 200}[draw(4)];
  c.passes = 1 + draw(3);
  c.mode = std::vector{ShuffleMode::kNone, ShuffleMode::kWindow, ShuffleMode::kGlobal}[draw(3)];
  c.on_damage = draw(2) == 0 ? OnDamage::kFail : OnDamage::kSkip;
  c.damaged = draw(2) == 0;
  c.transformed = draw(2) == 0;
  c.even = draw(3) == 0;
  return c;
}

StartedWay WayOf(const StartedCase& c, std::mt19937_64* random) {
  const auto draw = [random](std::uint64_t below) { return (*random)() % below; };
  StartedWay way;
  way.slots = 2 + draw(3);
  way.transfer = kTransferPlans[draw(kTransferPlans.size())];
  way.emulated.devices.resize(c.devices);
  way.emulated.simulated = draw(2) == 0;
  const auto policy = draw(2) == 0 ? SchedulePolicy::kRandom : SchedulePolicy::kLazy;
  if (way.emulated.simulated) way.emulated.policy = policy;
  way.emulated.seed = c.seed;
  way.fixed_slots = c.even && draw(2) == 0;
  way.with_timeline = draw(4) == 0;
  return way;
}

class StartedAgainTest : public PipelineTest {
 protected:
  StartedAgainTest() : good_(MakeFrames(false)), damaged_(MakeFrames(true)) {}

  /// tf.Examples: an image, a text of any length. Some are damaged, and all of the last batches.
  std::string MakeFrames(bool damaged) const {
    std::string path = directory_.File(damaged ? "damaged" : "good");
    RecordWriterResult made = OpenRecordWriter(path, "tfrecord");
    std::vector<std::size_t> sizes;
    ExampleBuilder builder;
    for (std::size_t i = 0; i < kFrames; ++i) {
      std::string image(kFrameBytes, '\0');
      for (std::size_t at = 0; at < image.size(); ++at) image[at] = static_cast<char>(at * 3 + i);
      builder.AddBytes("image", image);
      builder.AddBytes("text", std::string(i % 5 * 300, static_cast<char>('a' + i % 26)));
      const auto record = builder.Finish();
      sizes.push_back(record.size());
      EXPECT_TRUE(made.writer->Write(record).ok());
    }
    EXPECT_TRUE(made.writer->Close().ok());
    std::string bytes = ReadBytes(path);
    for (std::size_t i = 0, begin = 0; damaged && i < kFrames; begin += sizes[i++] + 16) {
      const bool is_bad = i % 17 == 5 || i >= kFrames - 12;
      if (is_bad) bytes[begin + 12 + sizes[i] / 2] ^= 4;
    }
    WriteBytes(path, std::as_bytes(std::span(bytes)));
    return path;
  }

  Reader Chain(const StartedCase& c) const {
    OpenOptions options = Options();
    options.arena = std::make_shared<PinnedArena>(kArenaBytes);
    options.on_damage = c.on_damage;
    options.io.path = IoPath::kPread;
    std::vector<FeatureSpec> fields = {{"image", kUInt8, {10, 12, 3}}};
    if (!c.even) fields.push_back({"text", kUInt8, {-1}});
    Reader records = OpenFiles({c.damaged ? damaged_ : good_}, options);
    const std::size_t window = c.mode == ShuffleMode::kWindow ? 13 : 0;
    records = Shuffle(records, {.window = window, .seed = 3, .mode = c.mode});
    return MultiPass(Batch(Parse(records, ExampleParser(fields)), {.size = c.batch}), c.passes);
  }

  static FeedOptions OptionsOf(const StartedCase& c, const StartedWay& way,
                               const std::shared_ptr<EmulatedDevices>& backend) {
    FeedOptions options;
    options.backend = backend;
    options.slots = way.slots;
    options.distribution = c.distribution;
    options.last_step = c.last_step;
    options.transfer = way.transfer;
    options.fixed_slots = way.fixed_slots;
    options.least_left_bytes = way.transfer == TransferPlan::kBatch ? 0 : 1;
    if (way.with_timeline) options.timeline = std::make_shared<Timeline>();
    if (!c.transformed) return options;
    options.transforms.emplace_back(NormalizeField{
        .field = 0, .mean = {1, 2, 3}, .channels_first = true, .crop_height = 5, .crop_width = 7});
    if (!c.even) options.transforms.emplace_back(PadField{.field = 1, .length = 777});
    return options;
  }

  static std::string TextOf(DeviceLease* lease) {
    std::string text = std::to_string(lease->number()) + " of batch " +
                       std::to_string(lease->origin().batch) + ", pass " +
                       std::to_string(lease->origin().pass) + ", " +
                       std::to_string(lease->valid_rows()) + " rows";
    for (const Tensor& tensor : lease->WaitHost()) {
      text += ShapeToString(tensor.shape);
      text.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
      for (const auto& level : tensor.lod) {
        text.append(reinterpret_cast<const char*>(level.data()), level.size_bytes());
      }
    }
    const auto* const mask = reinterpret_cast<const char*>(lease->DeviceMask());
    if (mask != nullptr) text.append(mask, lease->rows());
    return text;
  }

  /// Elsewhere, by the same feed or another one.
  void StartAgain(const StartedCase& c, const FeedOptions& options, const std::string& position,
                  std::mt19937_64* random, std::unique_ptr<DeviceFeed>* feed) const {
    const auto drawn = (*random)();
    if (drawn % 4 == 0) return (*feed)->ReInit();
    if (drawn % 4 == 1) return (*feed)->Restore(position);
    if (drawn % 4 == 2) return (*feed)->SeekTo(drawn / 4 % 9);
    Reader chain = Chain(c);
    chain.Restore(position);
    *feed = std::make_unique<DeviceFeed>(std::move(chain), options);
  }

  /// All that anybody sees of some starts.
  std::vector<std::string> Drive(const StartedCase& c, const StartedWay& way) const {
    const auto backend = EmulatedDevices::Open(way.emulated);
    const FeedOptions options = OptionsOf(c, way, backend);
    std::mt19937_64 random(c.seed);
    std::vector<std::string> seen;
    {
      auto feed = std::make_unique<DeviceFeed>(Chain(c), options);
      std::vector<std::string> positions = {feed->Position()};
      for (int starts = 0; starts < 5; ++starts) {
        std::vector<DeviceLease> held;
        const auto most = random() % 3 == 0 ? kFrames * 9 : random() % 20;
        for (std::size_t taken = 0; taken < most; ++taken) {
          DeviceLease lease;
          Status status;
          if (held.size() + 1 == way.slots) held.clear();
          const ReadResult result = feed->TryNext(&lease, &status);
          if (result == ReadResult::kFailed) seen.push_back(status.ToString());
          if (result != ReadResult::kRecord) break;
          seen.push_back(TextOf(&lease));
          positions.push_back(feed->Position());
          if (taken % 3 == 0) held.push_back(std::move(lease));
        }
        seen.push_back("at " + feed->Position());
        StartAgain(c, options, positions[random() % positions.size()], &random, &feed);
        seen.push_back("again at " + feed->Position());
      }
      EXPECT_TRUE(feed->Close().ok());
    }
    EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
    EXPECT_TRUE(backend->Leaks().none());
    return seen;
  }

  const std::string good_;
  const std::string damaged_;
};

TEST_F(StartedAgainTest, TheSameComesWhicheverWay) {
  const std::uint64_t first = std::random_device()();
  for (std::uint64_t seed = first; seed < first + StressRounds(150); ++seed) {
    std::mt19937_64 random(seed);
    const StartedCase c = CaseOf(seed, &random);
    StartedWay plain;
    plain.emulated.devices.resize(c.devices);
    const std::vector<std::string> expected = Drive(c, plain);
    const std::vector<std::string> got = Drive(c, WayOf(c, &random));
    const auto [at, other] =
        std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
    ASSERT_TRUE(at == expected.end() && other == got.end())
        << "seed " << seed << ": " << (at == expected.end() ? "" : at->substr(0, 300)) << "\n is "
        << (other == got.end() ? "" : other->substr(0, 300));
  }
}

}  // namespace
}  // namespace ringfeed
