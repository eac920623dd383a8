#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/feed/device_lane.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/settling_order.h"
#include "ringfeed/tensor.h"
#include "tests/gpu/cuda/cuda_fixture.h"

namespace ringfeed {
namespace {

class CudaRunning : public CudaBackendTest {
 protected:
  static constexpr std::size_t kBytes = 4096;

  CudaRunning() {
    for (std::size_t i = 0; i < kBytes; ++i) host_[i] = static_cast<std::byte>(i * 13 + 5);
  }

  /// `count` pieces of `bytes` each, from all over host_ to device_ in reverse order.
  std::vector<CopyPiece> Pieces(std::size_t count, std::size_t bytes) const {
    std::vector<CopyPiece> pieces;
    for (std::size_t i = 0; i < count; ++i) {
      pieces.push_back({device_ + (count - 1 - i) * bytes, host_.data() + i * bytes, bytes});
    }
    return pieces;
  }
  void ExpectCopied(const std::vector<CopyPiece>& pieces) const {
    for (const CopyPiece& piece : pieces) {
      EXPECT_EQ(std::memcmp(piece.to, piece.from, piece.bytes), 0) << piece.from - host_.data();
    }
  }

  /// A page: memory that crosses a boundary of the registrations is copied in two pieces.
  struct alignas(kBytes) Page {
    std::array<std::byte, kBytes> bytes{};
  };
  const std::unique_ptr<Page> page_ = std::make_unique<Page>();
  const std::span<std::byte, kBytes> host_{page_->bytes};
  const DeviceStream stream_ = NewStream();
  std::byte* const device_ = NewMemory(kBytes);
};

TEST_F(CudaRunning, WhatIsCopiedThereAndBackIsTheSame) {
  std::vector<std::byte> back(kBytes);
  ASSERT_TRUE(cuda_.CopyToDevice(stream_, device_, host_.data(), kBytes).ok());
  ASSERT_TRUE(cuda_.CopyToHost(stream_, back.data(), device_, kBytes).ok());
  ASSERT_TRUE(cuda_.SyncStream(stream_).ok());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), host_.begin()));
}

// The program looks for it later, and has to find it.
TEST_F(CudaRunning, ALookAtAnEventThatIsNotDoneLeavesTheProgramsOwnErrorThere) {
  const DeviceEvent event = NewEvent();
  fake_cudart::Hold(stream_.handle, true);
  ASSERT_TRUE(cuda_.Record(event, stream_).ok());
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, std::size_t{1} << 40), cudaErrorMemoryAllocation);
  EXPECT_FALSE(Done(event));
  EXPECT_EQ(fake_cudart::LastError(), cudaErrorMemoryAllocation);
  fake_cudart::Hold(stream_.handle, false);
  EXPECT_TRUE(Done(event));
}

TEST_F(CudaRunning, NoEventBecomesPartOfAGraph) {
  const DeviceEvent event = NewEvent();
  fake_cudart::CaptureStream(stream_.handle, true);
  EXPECT_TRUE(cuda_.IsCapturing(stream_));
  for (const Status& status : {cuda_.Record(event, stream_), cuda_.StreamWait(stream_, event)}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("captured"), std::string::npos) << status.message();
  }
  EXPECT_EQ(fake_cudart::Calls("cudaEventRecord"), 0);
  EXPECT_EQ(fake_cudart::Calls("cudaStreamWaitEvent"), 0);
  fake_cudart::CaptureStream(stream_.handle, false);
  EXPECT_FALSE(cuda_.IsCapturing(stream_));
  EXPECT_TRUE(cuda_.Record(event, stream_).ok());
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
}

TEST_F(CudaRunning, AStreamKnowsItsDevice) {
  EXPECT_EQ(cuda_.DeviceOfStream(stream_), 0);
  EXPECT_EQ(cuda_.DeviceOfStream(NewStream(1)), 1);
  EXPECT_EQ(cuda_.DeviceOfStream({reinterpret_cast<void*>(1)}), -1) << "on each device";
}

TEST_F(CudaRunning, NothingCanBeCopied) {
  EXPECT_TRUE(cuda_.CopyToDevice(stream_, device_, host_.data(), 0).ok());
  EXPECT_TRUE(cuda_.CopyBatchToDevice(stream_, {}).ok());
  EXPECT_TRUE(cuda_.Fill(stream_, device_, std::byte{1}, 0).ok());
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyAsync"), 0);
  EXPECT_EQ(fake_cudart::Calls("cudaMemsetAsync"), 0);
}

TEST_F(CudaRunning, ABatchIsOneCall) {
  const std::vector<CopyPiece> pieces = Pieces(40, 100);
  ASSERT_TRUE(cuda_.CopyBatchToDevice(stream_, pieces).ok());
  ExpectCopied(pieces);
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyBatchAsync"), 1);
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyAsync"), 0);
  EXPECT_EQ(cuda_.Counters().copies, 40U);
  EXPECT_EQ(cuda_.Counters().copied_bytes, 4000U);
}

TEST_F(CudaRunning, ALargeBatchIsAFewCalls) {
  const std::vector<CopyPiece> pieces = Pieces(1000, 4);
  ASSERT_TRUE(cuda_.CopyBatchToDevice(stream_, pieces).ok());
  ExpectCopied(pieces);
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyBatchAsync"), 4);
}

TEST_F(CudaRunning, ABatchOfOneIsACopy) {
  const std::vector<CopyPiece> pieces = Pieces(1, kBytes);
  ASSERT_TRUE(cuda_.CopyBatchToDevice(stream_, pieces).ok());
  ExpectCopied(pieces);
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyBatchAsync"), 0);
}

TEST_F(CudaRunning, EmptyPiecesOfABatchAreLeftOut) {
  std::vector<CopyPiece> pieces = Pieces(3, 100);
  pieces[1].bytes = 0;
  ASSERT_TRUE(cuda_.CopyBatchToDevice(stream_, pieces).ok());
  ExpectCopied(pieces);
}

TEST_F(CudaRunning, WhereTheDriverHasNoBatchesPiecesAreCopiedOneByOneFromThenOn) {
  fake_cudart::FailNth("cudaMemcpyBatchAsync", 1, cudaErrorCallRequiresNewerDriver);
  const std::vector<CopyPiece> pieces = Pieces(3, 100);
  ASSERT_TRUE(cuda_.CopyBatchToDevice(stream_, pieces).ok());
  ExpectCopied(pieces);
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
  ASSERT_TRUE(cuda_.CopyBatchToDevice(stream_, pieces).ok());
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyBatchAsync"), 1);
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyAsync"), 6);
}

TEST_F(CudaRunning, ABatchThatFailsIsAnErrorAndNotTriedAgain) {
  fake_cudart::FailNth("cudaMemcpyBatchAsync", 1, cudaErrorInvalidValue);
  const Status status = cuda_.CopyBatchToDevice(stream_, Pieces(3, 100));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("300 bytes"), std::string::npos) << status.message();
  EXPECT_EQ(fake_cudart::Calls("cudaMemcpyAsync"), 0);
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
}

TEST_F(CudaRunning, FillSetsABytesValue) {
  ASSERT_TRUE(cuda_.Fill(stream_, device_, std::byte{0xEE}, 100).ok());
  EXPECT_EQ(std::vector<std::byte>(device_, device_ + 100),
            std::vector<std::byte>(100, std::byte{0xEE}));
}

TEST_F(CudaRunning, AnEventIsDoneWhenWhatCameBeforeItIs) {
  const DeviceEvent event = NewEvent();
  EXPECT_TRUE(Done(event)) << "never recorded";
  fake_cudart::Hold(stream_.handle, true);
  ASSERT_TRUE(cuda_.CopyToDevice(stream_, device_, host_.data(), kBytes).ok());
  ASSERT_TRUE(cuda_.Record(event, stream_).ok());
  EXPECT_FALSE(Done(event));
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess) << "not ready is no error";
  fake_cudart::Hold(stream_.handle, false);
  EXPECT_TRUE(Done(event));
  EXPECT_TRUE(cuda_.SyncEvent(event).ok());
  EXPECT_EQ(std::memcmp(device_, host_.data(), kBytes), 0);
}

TEST_F(CudaRunning, AStreamWaitsForWhatTheEventStoodForAtTheCall) {
  const DeviceStream other = NewStream(1);
  const DeviceEvent event = NewEvent();
  const DeviceEvent behind = NewEvent(1);
  fake_cudart::Hold(stream_.handle, true);
  ASSERT_TRUE(cuda_.Record(event, stream_).ok());
  ASSERT_TRUE(cuda_.StreamWait(other, event).ok());
  ASSERT_TRUE(cuda_.Record(behind, other).ok());
  EXPECT_FALSE(Done(behind));
  fake_cudart::Hold(stream_.handle, false);
  EXPECT_TRUE(Done(behind));
}

TEST_F(CudaRunning, AnEventOfAnotherDeviceCannotBeRecorded) {
  const DeviceEvent event = NewEvent(1);
  EXPECT_EQ(cuda_.Record(event, stream_).code(), StatusCode::kInvalidArgument);
}

TEST_F(CudaRunning, TimeIsTakenBetweenTimedEventsAlone) {
  const DeviceEvent begin = NewEvent(0, EventKind::kTimed);
  const DeviceEvent end = NewEvent(0, EventKind::kTimed);
  ASSERT_TRUE(cuda_.Record(begin, stream_).ok());
  ASSERT_TRUE(cuda_.Record(end, stream_).ok());
  double milliseconds = 0;
  ASSERT_TRUE(cuda_.Elapsed(begin, end, &milliseconds).ok());
  EXPECT_EQ(milliseconds, 1);
  const DeviceEvent plain = NewEvent();
  ASSERT_TRUE(cuda_.Record(plain, stream_).ok());
  EXPECT_EQ(cuda_.Elapsed(begin, plain, &milliseconds).code(), StatusCode::kInvalidArgument);
}

TEST_F(CudaRunning, KernelsRunOnTheirStream) {
  const std::array<std::uint16_t, 3> tokens = {1, 2, 65535};
  ASSERT_TRUE(cuda_
                  .CopyToDevice(stream_, device_, reinterpret_cast<const std::byte*>(tokens.data()),
                                sizeof(tokens))
                  .ok());
  const WidenTokens widen = {device_, device_ + 256, 3, DType::kInt64};
  ASSERT_TRUE(cuda_.Launch(stream_, widen).ok());
  std::array<std::int64_t, 3> wide{};
  std::memcpy(wide.data(), device_ + 256, sizeof(wide));
  EXPECT_EQ(wide, (std::array<std::int64_t, 3>{1, 2, 65535}));
  EXPECT_TRUE(cuda_.Busy(stream_, 1000).ok());
  EXPECT_EQ(cuda_.Counters().launches, 2U);
}

TEST_F(CudaRunning, AKernelThatMakesNoSenseIsNotLaunched) {
  const WidenTokens widen = {nullptr, nullptr, 3, DType::kInt64};
  EXPECT_EQ(cuda_.Launch(stream_, widen).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_cudart::Calls("launch"), 0);
}

TEST_F(CudaRunning, AKernelIsNotLaunchedByAThreadOfAnotherDevice) {
  ASSERT_TRUE(cuda_.BindThread(1).ok());
  for (const Status& status :
       {cuda_.Launch(stream_, WidenTokens{device_, device_ + 256, 1, DType::kInt64}),
        cuda_.Busy(stream_, 1000)}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("bound"), std::string::npos) << status.message();
  }
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
}

TEST_F(CudaRunning, AStreamOfTheProgramsOwnIsTakenToo) {
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&own, cudaStreamNonBlocking, 0), cudaSuccess);
  ASSERT_TRUE(cuda_.CopyToDevice({own}, device_, host_.data(), kBytes).ok());
  const DeviceEvent event = NewEvent();
  ASSERT_TRUE(cuda_.Record(event, {own}).ok());
  EXPECT_TRUE(Done(event));
}

TEST_F(CudaRunning, TheLegacyStreamIsTakenByNoCall) {
  const DeviceStream legacy;
  const DeviceEvent event = NewEvent();
  const int before = fake_cudart::AllCalls();
  const CopyPiece piece = {device_, host_.data(), 1};
  const std::vector<Status> refused = {
      cuda_.Record(event, legacy),
      cuda_.StreamWait(legacy, event),
      cuda_.CopyToDevice(legacy, device_, host_.data(), 1),
      cuda_.CopyBatchToDevice(legacy, {&piece, 1}),
      cuda_.CopyToHost(legacy, host_.data(), device_, 1),
      cuda_.Fill(legacy, device_, std::byte{0}, 1),
      cuda_.Launch(legacy, WidenTokens{}),
      cuda_.Busy(legacy, 1),
      cuda_.SyncStream(legacy),
      cuda_.DestroyStream(legacy),
  };
  for (const Status& status : refused) EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_cudart::AllCalls(), before);
}

TEST_F(CudaRunning, DefaultStreamsByTheirNumbersAreThoseOfTheEventsDevice) {
  const DeviceStream stream = NewStream(1);
  const DeviceEvent copied = NewEvent(1);
  const DeviceEvent used = NewEvent(1);
  for (cudaStream_t number : {cudaStreamLegacy, cudaStreamPerThread}) {
    fake_cudart::Hold(stream.handle, true);
    ASSERT_TRUE(cuda_.Record(copied, stream).ok());
    ASSERT_EQ(fake_cudart::CurrentDevice(), 0);
    ASSERT_TRUE(cuda_.StreamWait({number}, copied).ok());
    ASSERT_TRUE(cuda_.Record(used, {number}).ok());
    EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
    EXPECT_FALSE(Done(used));
    fake_cudart::Hold(stream.handle, false);
    EXPECT_TRUE(Done(used));
  }
}

TEST_F(CudaRunning, ACaptureIsLookedForOnTheEventsDevice) {
  const DeviceEvent event = NewEvent(1);
  for (cudaStream_t number : {cudaStreamLegacy, cudaStreamPerThread}) {
    for (const int device : {0, 1}) {
      const bool expected = device == 1;
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      fake_cudart::CaptureStream(number, true);
      ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
      bool captured = !expected;
      EXPECT_TRUE(cuda_.RecordUnlessCaptured(event, {number}, &captured).ok());
      EXPECT_EQ(captured, expected);
      EXPECT_EQ(cuda_.Record(event, {number}).ok(), !expected);
      EXPECT_EQ(cuda_.StreamWait({number}, event).ok(), !expected);
      EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      fake_cudart::CaptureStream(number, false);
    }
  }
}

TEST_F(CudaRunning, NoEventIsTakenByNoCall) {
  bool done = false;
  double milliseconds = 0;
  const std::vector<Status> refused = {
      cuda_.Record({}, stream_), cuda_.StreamWait(stream_, {}),
      cuda_.Query({}, &done),    cuda_.SyncEvent({}),
      cuda_.DestroyEvent({}),    cuda_.Elapsed({}, {}, &milliseconds),
  };
  for (const Status& status : refused) EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST_F(CudaRunning, CallsAreCountedFailedOnesToo) {
  const DeviceEvent event = NewEvent();
  bool done = false;
  ASSERT_TRUE(cuda_.Record(event, stream_).ok());
  ASSERT_TRUE(cuda_.StreamWait(stream_, event).ok());
  ASSERT_TRUE(cuda_.Query(event, &done).ok());
  ASSERT_TRUE(cuda_.SyncEvent(event).ok());
  ASSERT_TRUE(cuda_.SyncStream(stream_).ok());
  fake_cudart::FailNth("cudaMemcpyAsync", 1, cudaErrorInvalidValue);
  ASSERT_FALSE(cuda_.CopyToDevice(stream_, device_, host_.data(), 100).ok());
  const BackendCounters counted = cuda_.Counters();
  EXPECT_EQ(counted.records, 1U);
  EXPECT_EQ(counted.stream_waits, 1U);
  EXPECT_EQ(counted.queries, 1U);
  EXPECT_EQ(counted.syncs, 2U);
  EXPECT_EQ(counted.copies, 1U);
  EXPECT_EQ(counted.copied_bytes, 100U);
  EXPECT_EQ(counted.allocations, 3U);  // the stream, the memory, the event
}

TEST_F(CudaRunning, IdleReturnsAtOnceWhereTheTimeIsOver) {
  const std::int64_t now = cuda_.NowNanos();
  cuda_.Idle(now);
  cuda_.Idle(now - 1'000'000'000);
  cuda_.Idle(cuda_.NowNanos() + 3'600'000'000'000);  // returns long before that
  EXPECT_GT(cuda_.NowNanos(), now);
}

TEST_F(CudaRunning, RangesNeedNoProfiler) {
  cuda_.BeginRange("a batch");
  cuda_.BeginRange("its copy");
  cuda_.EndRange();
  cuda_.EndRange();
}

TEST_F(CudaRunning, OneLookSaysWhetherAStreamIsCapturedAndRecords) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  bool captured = true;
  EXPECT_TRUE(cuda_.RecordUnlessCaptured(event, stream, &captured).ok());
  EXPECT_FALSE(captured);
  EXPECT_EQ(fake_cudart::Calls("cudaStreamIsCapturing"), 1);
  EXPECT_EQ(fake_cudart::Calls("cudaEventRecord"), 1);
  fake_cudart::CaptureStream(stream.handle, true);
  EXPECT_TRUE(cuda_.RecordUnlessCaptured(event, stream, &captured).ok());
  EXPECT_TRUE(captured);
  EXPECT_EQ(fake_cudart::Calls("cudaEventRecord"), 1);
  fake_cudart::CaptureStream(stream.handle, false);
  EXPECT_EQ(cuda_.RecordUnlessCaptured(event, {}, &captured).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(captured);
}

TEST_F(CudaRunning, AReleaseLooksOnceAtItsStream) {
  FeedOptions options;
  options.backend = std::shared_ptr<DeviceBackend>(&cuda_, [](DeviceBackend*) {});
  options.devices = {0};
  SettlingOrder order;
  DeviceLane lane(options, 0, std::make_shared<HostPins>(options.backend, CpuList{}), &order);
  ASSERT_TRUE(lane.Open().ok());
  FeedItem item;
  item.rows = item.valid_rows = 1;
  item.batch = {MakeScalar(std::int64_t{7})};
  ASSERT_EQ(lane.TryGive(std::move(item)), QueueResult::kOk);
  lane.Feed();
  std::size_t slot = 0;
  ASSERT_EQ(lane.leases().TryTake(&slot), QueueResult::kOk);
  ASSERT_TRUE(lane.leases().UseOn(&lane.slot(slot), NewStream()).ok());
  const int before = fake_cudart::Calls("cudaStreamIsCapturing");
  lane.leases().Release(&lane.slot(slot));
  EXPECT_EQ(fake_cudart::Calls("cudaStreamIsCapturing"), before + 1);
  EXPECT_TRUE(lane.Close(cuda_.NowNanos() + 1'000'000'000).ok());
}

}  // namespace
}  // namespace ringfeed
