#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/kernels/slow_crop.h"
#include "tests/readers/pipeline_fixture.h"

// Images that a device crops, mirrors and normalises are, bit by bit, those of a CPU that does the
// same a pixel at a time, however they came there.

namespace ringfeed {
namespace {

constexpr SlowCrop kSlow{
    .height = 40, .width = 44, .channels = 3, .crop_height = 32, .crop_width = 31};
constexpr std::size_t kRowBytes = 8 + 12 + 40 * 44 * 3;
constexpr float kMean[] = {1.5F, 100, 33.25F};
constexpr float kScale[] = {1.0F / 3, 0.5F, 0.1F};

class CroppedFeedTest : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    path_ = directory_.File("images.bin");
    bytes_.resize(kRows * kRowBytes);
    for (std::size_t row = 0; row < kRows; ++row) WriteRow(row);
    WriteBytes(path_, bytes_);
  }

  static NormalizeField Transform(bool channels_first) {
    NormalizeField normalize{.field = 2};
    normalize.mean.assign(std::begin(kMean), std::end(kMean));
    normalize.scale.assign(std::begin(kScale), std::end(kScale));
    normalize.channels_first = channels_first;
    normalize.crop_height = kSlow.crop_height;
    normalize.crop_width = kSlow.crop_width;
    normalize.crops = 1;
    return normalize;
  }

  /// A label, a place that may be beyond an edge, and pixels.
  Reader Chain(const std::function<Reader(Reader)>& order, BatchOptions batch) const {
    OpenOptions options = Options();
    options.format = "rows:" + std::to_string(kRowBytes);
    options.stripe_bytes = std::size_t{256} << 10;
    options.arena = std::make_shared<PinnedArena>(kArenaBytes);
    options.arena_bytes = kArenaBytes;  // from the beginning: see TransferTest
    const auto parser =
        RowsParser({{"label", kInt64, {}}, {"place", kInt32, {3}}, {"image", kUInt8, {40, 44, 3}}});
    return Batch(order(Parse(OpenFiles({path_}, options), parser)), batch);
  }

  const std::vector<float>& Expected(std::size_t row, bool channels_first) {
    std::vector<float>& numbers = expected_[{row, channels_first}];
    if (numbers.empty()) numbers = Make(row, channels_first);
    return numbers;
  }
  /// What the row is to become, a number at a time.
  std::vector<float> Make(std::size_t row, bool channels_first) const {
    const std::byte* const at = bytes_.data() + row * kRowBytes;
    std::vector<std::int32_t> place(3);
    std::memcpy(place.data(), at + 8, 12);
    const auto* const pixels = reinterpret_cast<const std::uint8_t*>(at + 20);
    const std::vector<std::uint8_t> taken = kSlow.Of({pixels, kSlow.image_bytes()}, place);
    std::vector<float> numbers(taken.size());
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const std::size_t channel = i % 3;
      const float difference = static_cast<float>(taken[i]) - kMean[channel];
      const std::size_t to = channels_first ? channel * taken.size() / 3 + i / 3 : i;
      numbers[to] = difference * kScale[channel];
    }
    return numbers;
  }

  /// Feeds it all, compares each row, and gives how many came.
  std::size_t FeedAll(const Reader& reader, FeedOptions options, EmulatedOptions devices) {
    const auto backend = EmulatedDevices::Open(std::move(devices));
    options.backend = backend;
    const bool channels_first = std::get<NormalizeField>(options.transforms[0]).channels_first;
    std::size_t rows = 0;
    {
      DeviceFeed feed(reader, options);
      while (auto lease = feed.Next()) {
        const auto tensors = lease->WaitHost();
        const auto labels = tensors[0].Values<std::int64_t>();
        const auto numbers = tensors[2].Values<float>();
        EXPECT_EQ(labels.size(), lease->rows());
        EXPECT_EQ(tensors[2].shape, channels_first ? (Shape{tensors[0].shape[0], 3, 32, 31})
                                                   : (Shape{tensors[0].shape[0], 32, 31, 3}));
        const std::size_t each = 32 * 31 * 3;
        const bool masked = tensors.size() > 3;
        rows += masked ? 0 : lease->valid_rows();
        for (std::size_t row = 0; row < labels.size(); ++row) {
          if (masked && tensors[3].Values<std::uint8_t>()[row] == 0) continue;
          rows += masked ? 1 : 0;
          const auto got = numbers.subspan(row * each, each);
          const auto& expected = Expected(static_cast<std::size_t>(labels[row]), channels_first);
          EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size_bytes()), 0)
              << "row " << labels[row];
        }
      }
      const DeviceFeedStats stats = feed.Stats().devices[0];
      left_bytes_ = stats.member_bytes + stats.slab_bytes;
    }
    EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
    return rows;
  }
  static EmulatedOptions Devices(std::size_t count, bool simulated = false) {
    EmulatedOptions options;
    options.simulated = simulated;
    options.devices.resize(count);
    return options;
  }

  static Reader AsFiles(Reader reader) { return reader; }
  static Reader Globally(Reader reader) {
    return Shuffle(std::move(reader), {.seed = 5, .mode = ShuffleMode::kGlobal});
  }

  static constexpr std::size_t kRows = 130;
  std::size_t left_bytes_ = 0;  ///< of the first device's batches: where they were read

 private:
  void WriteRow(std::size_t row) {
    std::byte* const at = bytes_.data() + row * kRowBytes;
    const auto label = static_cast<std::int64_t>(row);
    const std::int32_t number = static_cast<std::int32_t>(row);
    // Of 9 by 14 places, and some beyond.
    const std::int32_t place[] = {number % 12 - 1, number * 5 % 17 - 1, number / 2 % 2};
    std::memcpy(at, &label, sizeof(label));
    std::memcpy(at + 8, place, sizeof(place));
    for (std::size_t i = 20; i < kRowBytes; ++i) {
      at[i] = static_cast<std::byte>(i * 131 + i / 251 + row * 17);
    }
  }

  std::string path_;
  std::vector<std::byte> bytes_;
  std::map<std::pair<std::size_t, bool>, std::vector<float>> expected_;
};

TEST_F(CroppedFeedTest, ByEveryTransferAndOrder) {
  const std::function<Reader(Reader)> window = [](Reader reader) {
    return Shuffle(std::move(reader), {.window = 30, .seed = 5});
  };
  for (const auto& order :
       {std::function<Reader(Reader)>(AsFiles), window, std::function<Reader(Reader)>(Globally)}) {
    for (const TransferPlan transfer : kTransferPlans) {
      // 1: the places stay where they were read, too.
      for (const std::size_t least_left_bytes : {std::size_t{0}, std::size_t{1}}) {
        SCOPED_TRACE(testing::Message()
                     << TransferPlanName(transfer) << ", left from " << least_left_bytes);
        FeedOptions options;
        options.transfer = transfer;
        options.least_left_bytes = least_left_bytes;
        options.transforms = {Transform(least_left_bytes == 0)};
        EXPECT_EQ(FeedAll(Chain(order, {.size = 8}), options, Devices(1)), kRows);
        if (transfer == TransferPlan::kBatch) {
          EXPECT_EQ(left_bytes_, 0u);
        }
        if (transfer == TransferPlan::kMembers && least_left_bytes == 1) {
          EXPECT_GT(left_bytes_, kRows / 2 * kRowBytes);
          EXPECT_EQ(left_bytes_ % kRowBytes, 0u) << "some fields stayed, and others did not";
        }
      }
    }
  }
}

TEST_F(CroppedFeedTest, WithEveryDistributionAndLastStep) {
  for (const Distribution distribution : {Distribution::kRoundRobin, Distribution::kSplit}) {
    for (const LastStep last_step :
         {LastStep::kUneven, LastStep::kDrop, LastStep::kPad, LastStep::kShort}) {
      for (const TransferPlan transfer : {TransferPlan::kBatch, TransferPlan::kSlabs}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(distribution) << ", last step "
                                        << static_cast<int>(last_step));
        FeedOptions options;
        options.distribution = distribution;
        options.last_step = last_step;
        options.transfer = transfer;
        options.transforms = {Transform(true)};
        const std::size_t rows = FeedAll(Chain(AsFiles, {.size = 8}), options, Devices(3));
        if (last_step == LastStep::kDrop) {
          EXPECT_LE(rows, kRows);
        } else {
          EXPECT_EQ(rows, kRows);
        }
      }
    }
  }
}

// Rows that are not there are nothing but zeros, and so are their places.
TEST_F(CroppedFeedTest, OfPaddedBatches) {
  FeedOptions options;
  options.transforms = {Transform(false)};
  EXPECT_EQ(FeedAll(Chain(Globally, {.size = 48, .pad = true}), options, Devices(1)), kRows);
}

// The simulator finds a wait that is missing, whatever happened to run first.
TEST_F(CroppedFeedTest, BehindTheCopiesOfBothFieldsUnderEverySchedule) {
  for (const TransferPlan transfer :
       {TransferPlan::kBatch, TransferPlan::kMembers, TransferPlan::kSlabs}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << TransferPlanName(transfer) << ", seed " << seed);
      EmulatedOptions devices = Devices(2, true);
      devices.policy = SchedulePolicy::kRandom;
      devices.seed = seed;
      FeedOptions options;
      options.transfer = transfer;
      options.least_left_bytes = 1;
      options.transforms = {Transform(seed % 2 == 0)};
      EXPECT_EQ(FeedAll(Chain(Globally, {.size = 16}), options, devices), kRows);
    }
  }
}

TEST_F(CroppedFeedTest, RefusesAtTheFirstBatchWhatDoesNotFit) {
  FeedOptions options;
  NormalizeField normalize = Transform(false);
  normalize.crops = 0;
  options.transforms = {normalize};
  options.backend = EmulatedDevices::Open(1);
  DeviceFeed feed(Chain(AsFiles, {.size = 8}), options);
  try {
    (void)feed.Next();
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.status().message().find("is to be int32 [8, 3]"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
