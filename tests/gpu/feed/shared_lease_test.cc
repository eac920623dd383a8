#include "ringfeed/export/shared_lease.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/tensor.h"
#include "tests/gpu/feed/counting_rows.h"
#include "tests/gpu/feed/training_loop.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kRows = 400;
constexpr std::size_t kBatch = 10;

/// Batches of a ragged field: row r has r values of one byte.
Reader RaggedBatches(std::int64_t rows, std::size_t size) {
  class Rows final : public InstanceSource {
   public:
    explicit Rows(std::int64_t rows) : rows_(rows) {}
    ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
      if (next_ == rows_) return ReadResult::kEnd;
      *instance = {MakeTensor(std::vector<std::byte>(static_cast<std::size_t>(next_++)))};
      return ReadResult::kRecord;
    }
    bool ReInit() override {
      next_ = 0;
      return true;
    }

   private:
    const std::int64_t rows_;
    std::int64_t next_ = 0;
  };
  return Batch(FromInstanceSource(std::make_unique<Rows>(rows), {{"values", DType::kUInt8, {-1}}}),
               {.size = size});
}

/// A feed on one simulated device, whose memory is policed, and two streams of a loop's there.
class SharedLeaseTest : public testing::TestWithParam<SchedulePolicy> {
 protected:
  SharedLeaseTest() {
    EmulatedOptions options;
    options.simulated = true;
    options.policy = GetParam();
    options.seed = 5;
    backend_ = EmulatedDevices::Open(options);
    for (DeviceStream& stream : streams_) {
      EXPECT_TRUE(backend_->CreateStream(0, StreamPriority::kNormal, &stream).ok());
    }
    EXPECT_TRUE(backend_->AllocDevice(0, 256, &sum_).ok());
    FeedOptions feed;
    feed.backend = backend_;
    feed.devices = {0};
    feed.slots = 2;
    feed_ = std::make_unique<DeviceFeed>(CountingBatches(kRows, kBatch), feed);
  }
  ~SharedLeaseTest() override {
    for (const DeviceStream stream : streams_) EXPECT_TRUE(backend_->SyncStream(stream).ok());
    EXPECT_TRUE(feed_->Close().ok());
    EXPECT_TRUE(backend_->FreeDevice(0, sum_).ok());
    for (const DeviceStream stream : streams_) EXPECT_TRUE(backend_->DestroyStream(stream).ok());
    EXPECT_TRUE(backend_->Leaks().none());
  }

  /// Enqueues work that reads the batch, long enough for the feed to come by again.
  void Read(DeviceStream stream, const Tensor& tensor) {
    Checksum checksum;
    checksum.input = tensor.data;
    checksum.bytes = tensor.bytes;
    checksum.output = reinterpret_cast<std::uint64_t*>(sum_) + (stream == streams_[1] ? 1 : 0);
    EXPECT_TRUE(backend_->Busy(stream, 1'000'000).ok());
    EXPECT_TRUE(backend_->Launch(stream, checksum).ok());
  }
  std::string FirstOffence() const {
    const std::vector<Offence> offences = backend_->offences();
    return offences.empty() ? "" : offences[0].ToString();
  }

  std::shared_ptr<EmulatedDevices> backend_;
  std::array<DeviceStream, 2> streams_;
  std::byte* sum_ = nullptr;
  std::unique_ptr<DeviceFeed> feed_;
};

TEST_P(SharedLeaseTest, TheSlotIsWrittenAgainBehindEveryStreamItWasUsedOn) {
  while (auto lease = feed_->Next()) {
    const auto shared = SharedLease::Of(std::move(*lease), streams_[0]);
    const Instance tensors = shared->Tensors();
    Read(streams_[0], tensors[0]);
    shared->UseOn(streams_[1]);
    Read(streams_[1], tensors[0]);
  }
  EXPECT_EQ(FirstOffence(), "");
}

TEST_P(SharedLeaseTest, AStreamThatIsNotNamedIsNotWaitedFor) {
  while (auto lease = feed_->Next()) {
    const auto shared = SharedLease::Of(std::move(*lease));  // the copy is done: read as one may
    const Instance tensors = shared->Tensors();
    Read(streams_[1], tensors[0]);
  }
  EXPECT_NE(FirstOffence(), "");
}

TEST_P(SharedLeaseTest, AnUnwaitedLeaseWaitsOnTheStreamThatIsNamedElseOnTheHost) {
  for (bool named = false; auto lease = feed_->Next(); named = !named) {
    const auto shared = SharedLease::Unwaited(std::move(*lease));
    EXPECT_FALSE(*lease);
    const Instance tensors = shared->Tensors();
    if (named) {
      shared->UseOn(streams_[1]);
    } else {
      shared->UseOnNumbered(SharedLease::kNoWait);
    }
    Read(streams_[1], tensors[0]);
    // Then the slot may come back without an event of that stream.
    if (!named) {
      EXPECT_TRUE(backend_->SyncStream(streams_[1]).ok());
    }
  }
  EXPECT_EQ(FirstOffence(), "");
  DeviceLease none;
  EXPECT_THROW((void)SharedLease::Unwaited(std::move(none)), Error);
}

TEST_P(SharedLeaseTest, WithoutAFirstStreamTheHostWaitsAndLaterStreamsAreStillWaitedFor) {
  while (auto lease = feed_->Next()) {
    const auto shared = SharedLease::Of(std::move(*lease));
    EXPECT_FALSE(shared->first_stream());
    shared->UseOn(streams_[1]);
    const Instance tensors = shared->Tensors();
    Read(streams_[1], tensors[0]);
  }
  EXPECT_EQ(FirstOffence(), "");
}

TEST_P(SharedLeaseTest, TheHostWaitsForACopyThatOnlyAStreamWaitedFor) {
  const auto shared = SharedLease::Of(std::move(*feed_->Next()), streams_[0]);
  const std::uint64_t waits = backend_->CallsOf(DeviceCall::kQuery);
  shared->WaitHost();
  EXPECT_GT(backend_->CallsOf(DeviceCall::kQuery), waits);
}

TEST_P(SharedLeaseTest, TensorsKeepTheLeaseBehindTheLastPointer) {
  std::vector<Instance> held;
  for (int slot = 0; slot < 2; ++slot) {
    held.push_back(SharedLease::Of(std::move(*feed_->Next()))->Tensors());
  }
  DeviceLease lease;
  Status status;
  EXPECT_EQ(feed_->TryNext(&lease, &status), ReadResult::kFailed);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  held.pop_back();
  EXPECT_EQ(feed_->TryNext(&lease, &status), ReadResult::kRecord);
}

TEST_P(SharedLeaseTest, AStreamMayBeNamedByItsNumber) {
  while (auto lease = feed_->Next()) {
    const auto shared = SharedLease::Of(std::move(*lease), streams_[0]);
    const auto number = reinterpret_cast<std::intptr_t>(streams_[1].handle);
    shared->UseOnNumbered(number);
    const Instance tensors = shared->Tensors();
    Read(streams_[1], tensors[0]);
  }
  EXPECT_EQ(FirstOffence(), "");
}

TEST_P(SharedLeaseTest, NumbersThatAreNoStreamsAreRefused) {
  const auto shared = SharedLease::Of(std::move(*feed_->Next()));
  const std::uint64_t waits = backend_->CallsOf(DeviceCall::kStreamWait);
  for (const std::int64_t number : {0, -2}) {
    try {
      shared->UseOnNumbered(number);
      ADD_FAILURE() << number;
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    }
  }
  shared->UseOnNumbered(SharedLease::kNoWait);
  EXPECT_EQ(backend_->CallsOf(DeviceCall::kStreamWait), waits);
}

TEST_P(SharedLeaseTest, WhatTheFeedDoesNotMakeIsNotThere) {
  const auto shared = SharedLease::Of(std::move(*feed_->Next()));
  EXPECT_FALSE(shared->Mask());
  EXPECT_FALSE(shared->Offsets(0));
  EXPECT_FALSE(shared->Offsets(7));
}

TEST(SharedLeaseTensorsTest, OffsetsAndTheMaskAreTensorsOfTheLease) {
  FeedOptions options;
  const auto backend = EmulatedDevices::Open(2);
  options.backend = backend;
  options.devices = {0, 1};
  options.last_step = LastStep::kPad;
  auto feed = std::make_unique<DeviceFeed>(RaggedBatches(7, 4), options);
  Tensor offsets;
  Tensor mask;
  for (int b = 0; b < 2; ++b) {
    const auto shared = SharedLease::Of(std::move(*feed->Next()));
    offsets = *shared->Offsets(0);
    mask = *shared->Mask();
  }
  feed.reset();
  const auto* ends = reinterpret_cast<const std::int64_t*>(offsets.data);
  EXPECT_EQ(offsets.shape, Shape{5});
  EXPECT_EQ(PlaceName(offsets.place), "EMU:1");
  // Rows 4 to 6 have as many values as their number; the last one is repeated.
  EXPECT_EQ(std::vector(ends, ends + 4), (std::vector<std::int64_t>{0, 4, 9, 15}));
  EXPECT_EQ(mask.dtype, DType::kUInt8);
  EXPECT_EQ(std::vector(mask.data, mask.data + mask.bytes),
            (std::vector{std::byte{1}, std::byte{1}, std::byte{1}, std::byte{0}}));
  EXPECT_FALSE(backend->Leaks().none());
  offsets = mask = Tensor();
  EXPECT_TRUE(backend->Leaks().none());
}

TEST_P(SharedLeaseTest, AStreamThatIsRefusedLeavesTheLeaseWithTheCaller) {
  auto lease = feed_->Next();
  const std::uint64_t number = lease->number();
  EXPECT_THROW((void)SharedLease::Of(std::move(*lease), {&sum_}), Error);  // that is no stream
  ASSERT_TRUE(*lease);
  EXPECT_EQ(lease->number(), number);
  const auto shared = SharedLease::Of(std::move(*lease), streams_[0]);
  EXPECT_EQ(shared->Tensors().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Schedules, SharedLeaseTest,
                         testing::Values(SchedulePolicy::kTimed, SchedulePolicy::kLazy,
                                         SchedulePolicy::kRandom));

}  // namespace
}  // namespace ringfeed
