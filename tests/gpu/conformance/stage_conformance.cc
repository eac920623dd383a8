#include "tests/gpu/conformance/stage_conformance.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"

// A stage of the program's on each backend: as kernels of the device's, or as their twins.

namespace ringfeed {
namespace {

constexpr std::size_t kBytesOfRow = 33;
constexpr std::size_t kPadded = 5;
constexpr std::int64_t kRows = 170;
constexpr std::size_t kBatch = 16;

std::uint8_t ByteOf(std::int64_t row) { return static_cast<std::uint8_t>(row % 251); }
/// Another one for the first row of each batch.
std::size_t WordBytes(std::int64_t row) { return static_cast<std::size_t>(row % 17); }

/// Rows of bytes that say their number, and of words of 0 to 16 of them.
class WordRows final : public InstanceSource {
 public:
  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    if (next_ == kRows) return ReadResult::kEnd;
    const std::uint8_t byte = ByteOf(next_);
    *instance = {MakeTensor(std::vector<std::uint8_t>(kBytesOfRow, byte)),
                 MakeTensor(std::vector<std::uint8_t>(WordBytes(next_), byte))};
    ++next_;
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }
  bool Ready() const override { return true; }

 private:
  std::int64_t next_ = 0;
};

Reader Words() {
  return Batch(
      FromInstanceSource(std::make_unique<WordRows>(),
                         {{"bytes", DType::kUInt8, {kBytesOfRow}}, {"word", DType::kUInt8, {-1}}}),
      {.size = kBatch});
}

/// The bytes as numbers, twice as large, and the words padded.
std::vector<DeviceKernel> KernelsOf(const StageCall& call) {
  CastNormalize numbers{
      .input = call.fields[0].data, .output = call.output(0), .rows = call.fields[0].bytes};
  numbers.scale[0] = 2;
  RaggedToPadded words{.input = call.fields[1].data,
                       .offsets = call.offsets[1],
                       .output = call.output(1),
                       .rows = static_cast<std::uint64_t>(call.outputs[1].shape[0]),
                       .length = kPadded,
                       .input_units = call.fields[1].bytes};
  return {numbers, words};
}

}  // namespace

FeedOptions StageConformance::WithStage(std::vector<int> devices) {
  FeedOptions options = OnOneDevice();
  options.devices = std::move(devices);
  options.stage = {.outputs = {{DType::kFloat32, {kBytesOfRow}}, {DType::kUInt8, {kPadded}}},
                   .enqueue =
                       [this](const StageCall& call) {
                         Status status = Called(call);
                         for (const DeviceKernel& kernel : KernelsOf(call)) {
                           if (status.ok()) status = backend().Launch(call.stream, kernel);
                         }
                         return status;
                       },
                   .on_host =
                       [this](const StageCall& call) {
                         EXPECT_FALSE(call.stream);
                         ++running_;
                         for (const DeviceKernel& kernel : KernelsOf(call)) RunKernelOnHost(kernel);
                         --running_;
                         return Called(call);
                       }};
  return options;
}

Status StageConformance::Called(const StageCall& call) {
  EXPECT_EQ(call.fields.size(), 2U);
  EXPECT_EQ(call.offsets[0], nullptr);
  EXPECT_EQ(call.valid_rows, static_cast<std::uint64_t>(call.outputs[0].shape[0]));
  ++calls_;
  const auto first_bytes = static_cast<std::size_t>(call.fields[1].lod[0][1]);
  const int at = fail_at_;
  if (at < 0 || first_bytes != WordBytes(at * std::int64_t{kBatch})) return {};
  if (throws_) throw std::runtime_error("thrown");
  return Status(StatusCode::kNotFound, "returned");
}

void StageConformance::Check(DeviceLease* lease, std::int64_t first) {
  DeviceStream& stream = streams_[lease->device()];
  if (!stream) stream = NewStream(lease->device());
  const std::span<const Tensor> tensors = lease->On(stream);
  ASSERT_EQ(tensors.size(), 4U);
  const auto rows = static_cast<std::int64_t>(lease->rows());
  EXPECT_EQ(tensors[2].shape, (Shape{rows, kBytesOfRow}));
  EXPECT_EQ(tensors[3].shape, (Shape{rows, kPadded}));
  if (rows == 0) return;
  const std::vector<std::byte> numbers = ReadBack(stream, tensors[2].data, tensors[2].bytes);
  const std::vector<std::byte> words = ReadBack(stream, tensors[3].data, tensors[3].bytes);
  std::vector<float> expected_numbers;
  std::vector<std::byte> expected_words;
  for (std::int64_t row = first; row < first + rows; ++row) {
    expected_numbers.insert(expected_numbers.end(), kBytesOfRow, 2.F * ByteOf(row));
    for (std::size_t i = 0; i < kPadded; ++i) {
      expected_words.push_back(std::byte{i < WordBytes(row) ? ByteOf(row) : std::uint8_t{0}});
    }
  }
  EXPECT_TRUE(std::ranges::equal(numbers, std::as_bytes(std::span(expected_numbers))))
      << "batch " << lease->number();
  EXPECT_EQ(words, expected_words) << "batch " << lease->number();
}

std::size_t StageConformance::TakeAll(DeviceFeed* feed, Status* status) {
  std::size_t taken = 0;
  DeviceLease lease;
  while (feed->TryNext(&lease, status) == ReadResult::kRecord) {
    Check(&lease, static_cast<std::int64_t>(lease.number() * kBatch));
    ++taken;
  }
  return taken;
}

namespace {

TEST_P(StageConformance, AStageMakesFieldsOfEachBatchBeforeItsLease) {
  for (const TransferPlan transfer :
       {TransferPlan::kAuto, TransferPlan::kBatch, TransferPlan::kSlabs}) {
    for (const bool fixed_slots : {false, true}) {
      FeedOptions options = WithStage();
      options.transfer = transfer;
      options.fixed_slots = fixed_slots;
      DeviceFeed feed(Words(), options);
      Status status;
      calls_ = 0;
      EXPECT_EQ(TakeAll(&feed, &status), 11U);
      EXPECT_TRUE(Ok(status));
      EXPECT_EQ(calls_, 11);
      EXPECT_TRUE(Ok(feed.Close()));
    }
  }
}

TEST_P(StageConformance, NoOutputIsWrittenBeforeItsConsumersAreDone) {
  FeedOptions options = WithStage();
  options.slots = 2;
  DeviceFeed feed(Words(), options);
  streams_[0] = NewStream();
  std::int64_t first = 0;
  while (auto lease = feed.Next()) {
    (void)lease->On(streams_[0]);
    EXPECT_TRUE(Ok(backend().Busy(streams_[0], 1'000'000)));
    Check(&*lease, first);
    first += kBatch;
  }
  EXPECT_GE(first, kRows);
}

TEST_P(StageConformance, AStagesFailureComesAfterEverythingGoodAndLosesNoSlot) {
  DeviceFeed feed(Words(), WithStage());
  for (const bool throws : {false, true}) {
    throws_ = throws;
    for (const int at : {0, 1, 6, 10}) {
      fail_at_ = at;
      feed.ReInit();
      Status status;
      EXPECT_EQ(TakeAll(&feed, &status), static_cast<std::size_t>(at));
      EXPECT_TRUE(FailsWith(throws ? StatusCode::kUserError : StatusCode::kNotFound, status));
      EXPECT_NE(status.message().find("the stage"), std::string::npos) << status.message();
      DeviceLease lease;
      EXPECT_EQ(feed.TryNext(&lease, &status), ReadResult::kFailed) << "again";
    }
  }
  fail_at_ = -1;
  feed.ReInit();
  std::vector<DeviceLease> all(3);
  Status status;
  for (DeviceLease& lease : all) EXPECT_EQ(feed.TryNext(&lease, &status), ReadResult::kRecord);
  all.clear();
  EXPECT_EQ(TakeAll(&feed, &status), 8U);
  EXPECT_TRUE(Ok(status));
  EXPECT_TRUE(Ok(feed.Close()));
}

TEST_P(StageConformance, APositionGoesOnWithTheNextBatchsOutputs) {
  DeviceFeed feed(Words(), WithStage());
  for (const std::uint64_t batch : {3U, 0U, 10U}) {
    feed.SeekTo(batch);
    std::optional<DeviceLease> lease = feed.Next();
    ASSERT_TRUE(lease);
    Check(&*lease, static_cast<std::int64_t>(batch * kBatch));
  }
}

TEST_P(StageConformance, InAFixedSlotOutputsDoNotMove) {
  FeedOptions options = WithStage();
  options.fixed_slots = true;
  options.slot_bytes = 16384;
  DeviceFeed feed(Words(), options);
  std::map<std::size_t, std::array<const std::byte*, 2>> places;
  const DeviceStream stream = NewStream();
  while (auto lease = feed.Next()) {
    const auto tensors = lease->On(stream);
    const std::array<const std::byte*, 2> now = {tensors[2].data, tensors[3].data};
    EXPECT_EQ(places.try_emplace(lease->slot(), now).first->second, now);
  }
  EXPECT_EQ(places.size(), 3U);
}

TEST_P(StageConformance, EachDeviceMakesTheOutputsOfItsPart) {
  if (!HasDevices(2)) GTEST_SKIP() << "one device";
  for (const Distribution distribution :
       {Distribution::kRoundRobin, Distribution::kSplit, Distribution::kReplicate}) {
    FeedOptions options = WithStage({0, 1});
    options.distribution = distribution;
    DeviceFeed feed(Words(), options);
    std::int64_t next = 0;
    while (auto lease = feed.Next()) {
      const bool is_copy = distribution == Distribution::kReplicate && lease->device_index() == 1;
      if (is_copy) next -= static_cast<std::int64_t>(lease->rows());
      Check(&*lease, next);
      next += static_cast<std::int64_t>(lease->rows());
    }
    EXPECT_EQ(next, kRows);
    EXPECT_TRUE(Ok(feed.Close()));
  }
}

// None of them may take it for the end of the data.
TEST_P(StageConformance, AFailureOnOneDeviceFailsTheLoopsOfAll) {
  if (!HasDevices(2)) GTEST_SKIP() << "one device";
  FeedOptions options = WithStage({0, 1});
  options.slots = 2;
  options.waiting_batches = 1;  // of 11 batches, some are not given before the failure
  DeviceFeed feed(Words(), options);
  for (const int at : {0, 1}) {
    fail_at_ = at;
    feed.ReInit();
    std::array<ReadResult, 2> last = {ReadResult::kRecord, ReadResult::kRecord};
    Status status;
    while (last[0] == ReadResult::kRecord || last[1] == ReadResult::kRecord) {
      for (std::size_t device = 0; device < last.size(); ++device) {
        DeviceLease lease;
        if (last[device] != ReadResult::kRecord) continue;
        last[device] = feed.TryNext(device, &lease, &status);
      }
    }
    EXPECT_EQ(last[0], ReadResult::kFailed) << at;
    EXPECT_EQ(last[1], ReadResult::kFailed) << at;
  }
}

TEST_P(StageConformance, AFeedThatIsClosedEndsItsStagesFirst) {
  for (const int taken : {0, 1, 4}) {
    DeviceFeed feed(Words(), WithStage());
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(feed.Next());
    EXPECT_TRUE(Ok(feed.Close()));
    EXPECT_EQ(running_, 0);
  }
}

TEST_P(StageConformance, AStageThatCallsAFeedIsRefusedAndDoesNotWaitForItself) {
  std::atomic<DeviceFeed*> calls = nullptr;
  FeedOptions options = WithStage();
  const auto call_feed = [&](const StageCall&) {
    DeviceFeed* const feed = calls.load();
    if (feed == nullptr) return Status();
    EXPECT_THROW(feed->ReInit(), Error);
    EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, feed->Close()));
    DeviceLease lease;
    Status status;
    EXPECT_EQ(feed->TryNext(0, &lease, &status), ReadResult::kFailed);
    EXPECT_EQ(feed->TryNext(&lease, &status), ReadResult::kFailed);
    return status;
  };
  options.stage = {.enqueue = call_feed, .on_host = call_feed};
  DeviceFeed feed(Words(), options);
  calls = &feed;
  Status status;
  DeviceLease lease;
  while (feed.TryNext(&lease, &status) == ReadResult::kRecord) continue;
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, status));
  EXPECT_NE(status.message().find("a stage calls a feed"), std::string::npos);
  EXPECT_TRUE(Ok(feed.Close()));
}

TEST_P(StageConformance, AStageThatTheseDevicesCannotRunIsRefused) {
  const bool is_emulated = backend().type() == DeviceType::kEmulated;
  FeedOptions options = WithStage();
  (is_emulated ? options.stage.on_host : options.stage.enqueue) = nullptr;
  try {
    const DeviceFeed feed(Words(), options);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.status().message().find(is_emulated ? "on_host" : "enqueue"),
              std::string::npos);
  }
  options = WithStage();
  options.stage.outputs[1].row = {3, 0};
  EXPECT_THROW(DeviceFeed(Words(), options), Error);
}

}  // namespace
}  // namespace ringfeed
