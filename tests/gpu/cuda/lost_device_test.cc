#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/cuda/cuda_fixture.h"

namespace ringfeed {
namespace {

using fake_cudart::LiveNow;

// Device 0 is lost, device 1 goes on.
class LostDevice : public CudaBackendTest {
 protected:
  void Lose() {
    fake_cudart::BreakContext(0, cudaErrorIllegalAddress);
    bool done = false;
    failure_ = cuda_.Query(event_, &done);
    ASSERT_EQ(failure_.code(), StatusCode::kDeviceLost);
  }
  /// One that the program made, by a thread that is on device 0 again.
  static DeviceStream OwnStream(int device) {
    cudaStream_t own = nullptr;
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithPriority(&own, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    return {own};
  }

  const DeviceStream stream_ = NewStream();
  const DeviceEvent event_ = NewEvent();
  std::byte* const data_ = NewMemory(64);
  const DeviceStream other_stream_ = NewStream(1);
  const DeviceEvent other_event_ = NewEvent(1);
  std::byte* const other_data_ = NewMemory(64, 1);
  std::vector<std::byte> host_ = std::vector<std::byte>(64);
  Status failure_;
};

TEST_F(LostDevice, TheFirstFailureIsRememberedWithoutALookAtTheDevice) {
  EXPECT_TRUE(cuda_.DeviceStatus(0).ok());
  Lose();
  const int before = fake_cudart::AllCalls();
  EXPECT_EQ(cuda_.DeviceStatus(0).ToString(), failure_.ToString());
  EXPECT_TRUE(cuda_.DeviceStatus(1).ok());
  EXPECT_EQ(fake_cudart::AllCalls(), before);
  EXPECT_NE(failure_.message().find("device 0: look at an event"), std::string::npos)
      << failure_.message();
}

TEST_F(LostDevice, EveryLaterCallOnItFailsAndNoneReachesCuda) {
  Lose();
  const int before = fake_cudart::AllCalls();
  DeviceInfo info;
  DeviceStream stream;
  DeviceEvent event;
  std::byte* data = nullptr;
  bool done = false;
  double milliseconds = 0;
  const CopyPiece piece = {data_, host_.data(), 1};
  const std::vector<Status> failed = {
      cuda_.Info(0, &info),
      cuda_.BindThread(0),
      cuda_.AllocDevice(0, 1, &data),
      cuda_.CreateStream(0, StreamPriority::kNormal, &stream),
      cuda_.CreateEvent(0, EventKind::kPlain, &event),
      cuda_.Record(event_, stream_),
      cuda_.StreamWait(stream_, event_),
      cuda_.StreamWait(stream_, other_event_),
      cuda_.StreamWait(other_stream_, event_),
      cuda_.Query(event_, &done),
      cuda_.CopyToDevice(stream_, data_, host_.data(), 1),
      cuda_.CopyBatchToDevice(stream_, {&piece, 1}),
      cuda_.CopyToHost(stream_, host_.data(), data_, 1),
      cuda_.Fill(stream_, data_, std::byte{0}, 1),
      cuda_.Launch(stream_, WidenTokens{data_, data_ + 32, 1, DType::kInt64}),
      cuda_.Busy(stream_, 1),
      cuda_.SyncEvent(event_),
      cuda_.SyncStream(stream_),
      cuda_.Elapsed(event_, event_, &milliseconds),
      cuda_.FreeDevice(0, data_),
  };
  for (const Status& status : failed) EXPECT_EQ(status.ToString(), failure_.ToString());
  EXPECT_EQ(fake_cudart::AllCalls(), before);
}

TEST_F(LostDevice, TheOtherDeviceGoesOn) {
  Lose();
  EXPECT_TRUE(cuda_.CopyToDevice(other_stream_, other_data_, host_.data(), 64).ok());
  EXPECT_TRUE(cuda_.Record(other_event_, other_stream_).ok());
  EXPECT_TRUE(Done(other_event_));
  EXPECT_TRUE(cuda_.BindThread(1).ok());
  EXPECT_TRUE(cuda_.FreeDevice(1, other_data_).ok());
}

TEST_F(LostDevice, WhatWasMadeOnItCanBeGivenBack) {
  Lose();
  EXPECT_EQ(cuda_.FreeDevice(0, data_).code(), StatusCode::kDeviceLost);
  EXPECT_TRUE(cuda_.DestroyEvent(event_).ok());
  EXPECT_TRUE(cuda_.DestroyStream(stream_).ok());
}

TEST_F(LostDevice, HostMemoryIsUnregisteredByTheOtherDevice) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), host_.size()).ok());
  Lose();
  ASSERT_TRUE(cuda_.UnregisterHost(host_.data()).ok());
  EXPECT_EQ(LiveNow().registrations, 0U);
}

TEST_F(LostDevice, WithAllDevicesHostMemoryIsForgotten) {
  ASSERT_TRUE(cuda_.RegisterHost(host_.data(), host_.size()).ok());
  Lose();
  fake_cudart::BreakContext(1, cudaErrorECCUncorrectable);
  ASSERT_EQ(cuda_.SyncStream(other_stream_).code(), StatusCode::kDeviceLost);
  EXPECT_TRUE(cuda_.UnregisterHost(host_.data()).ok());
  EXPECT_EQ(cuda_.UnregisterHost(host_.data()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cuda_.RegisterHost(host_.data(), 1).code(), StatusCode::kDeviceLost);
}

TEST_F(LostDevice, AWaitThatFailsByItsEventsDeviceLosesThatOne) {
  fake_cudart::BreakContext(0, cudaErrorIllegalAddress);
  EXPECT_EQ(cuda_.StreamWait(other_stream_, event_).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(cuda_.DeviceStatus(0).code(), StatusCode::kDeviceLost);
  EXPECT_TRUE(cuda_.DeviceStatus(1).ok());
  EXPECT_TRUE(cuda_.SyncStream(other_stream_).ok());
}

TEST_F(LostDevice, AWaitThatFailsByItsStreamsDeviceLosesThatOne) {
  fake_cudart::BreakContext(0, cudaErrorIllegalAddress);
  EXPECT_EQ(cuda_.StreamWait(stream_, other_event_).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(cuda_.DeviceStatus(0).code(), StatusCode::kDeviceLost);
  EXPECT_TRUE(cuda_.DeviceStatus(1).ok());
}

TEST_F(LostDevice, AStreamOfTheProgramsOwnIsTheBoundDevices) {
  ASSERT_TRUE(cuda_.BindThread(1).ok());
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&own, cudaStreamNonBlocking, 0), cudaSuccess);
  fake_cudart::BreakContext(1, cudaErrorLaunchFailure);
  EXPECT_EQ(cuda_.SyncStream({own}).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(cuda_.DeviceStatus(1).code(), StatusCode::kDeviceLost);
  EXPECT_TRUE(cuda_.DeviceStatus(0).ok());
}

TEST_F(LostDevice, AWaitOfAStreamOfTheProgramsOwnLosesTheEventsDevice) {
  const DeviceStream own = OwnStream(1);
  fake_cudart::BreakContext(1, cudaErrorLaunchFailure);
  ASSERT_EQ(fake_cudart::CurrentDevice(), 0);
  EXPECT_EQ(cuda_.StreamWait(own, other_event_).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(cuda_.DeviceStatus(1).code(), StatusCode::kDeviceLost);
  EXPECT_TRUE(cuda_.DeviceStatus(0).ok());
}

TEST_F(LostDevice, AStreamOfTheProgramsOwnGoesOnWithTheEventsDevice) {
  const DeviceStream own = OwnStream(1);
  Lose();
  ASSERT_EQ(fake_cudart::CurrentDevice(), 0);
  for (const DeviceStream stream : {own, DeviceStream{cudaStreamLegacy}}) {
    bool captured = false;
    EXPECT_TRUE(cuda_.Record(other_event_, stream).ok());
    EXPECT_TRUE(cuda_.RecordUnlessCaptured(other_event_, stream, &captured).ok());
    EXPECT_TRUE(cuda_.StreamWait(stream, other_event_).ok());
  }
  EXPECT_TRUE(cuda_.DeviceStatus(1).ok());
}

TEST_F(LostDevice, AnErrorThatDoesNotStayLosesNothing) {
  fake_cudart::FailNth("cudaMemcpyAsync", 1, cudaErrorInvalidValue);
  EXPECT_FALSE(cuda_.CopyToDevice(stream_, data_, host_.data(), 1).ok());
  EXPECT_TRUE(cuda_.DeviceStatus(0).ok());
  EXPECT_TRUE(cuda_.CopyToDevice(stream_, data_, host_.data(), 1).ok());
}

TEST_F(LostDevice, TheFirstOfSeveralFailuresIsKept) {
  fake_cudart::FailNth("cudaMemcpyAsync", 1, cudaErrorECCUncorrectable);
  const Status first = cuda_.CopyToDevice(stream_, data_, host_.data(), 1);
  ASSERT_EQ(first.code(), StatusCode::kDeviceLost);
  EXPECT_EQ(cuda_.SyncStream(stream_).ToString(), first.ToString());
  EXPECT_EQ(cuda_.DeviceStatus(0).ToString(), first.ToString());
}

// Under ThreadSanitizer: threads that ask while another one finds the device lost.
TEST_F(LostDevice, ThreadsThatAskMeanwhileSeeTheWholeFailure) {
  fake_cudart::BreakContext(0, cudaErrorIllegalAddress);
  std::vector<std::jthread> threads;
  std::atomic<int> lost = 0;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      Status status;
      while (status.ok()) status = cuda_.DeviceStatus(0);
      if (status.message().find("device 0: wait for a stream") != std::string::npos) ++lost;
    });
  }
  EXPECT_EQ(cuda_.SyncStream(stream_).code(), StatusCode::kDeviceLost);
  threads.clear();
  EXPECT_EQ(lost, 3);
}

}  // namespace
}  // namespace ringfeed
