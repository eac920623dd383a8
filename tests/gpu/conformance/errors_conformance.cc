// What is refused, and that the device is none the worse for it.

#include <array>
#include <cstdint>

#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

TEST_P(BackendConformance, DevicesThatAreNotThereAreRefused) {
  MeanWrongUse();
  for (const int device : {-1, backend().DeviceCount(), backend().DeviceCount() + 1000}) {
    SCOPED_TRACE(device);
    const auto refused = [](const Status& status) {
      return FailsWith(StatusCode::kInvalidArgument, status);
    };
    DeviceInfo info;
    EXPECT_TRUE(refused(backend().Info(device, &info)));
    EXPECT_TRUE(refused(backend().BindThread(device)));
    std::byte* data = nullptr;
    EXPECT_TRUE(refused(backend().AllocDevice(device, 1000, &data)));
    EXPECT_EQ(data, nullptr);
    DeviceStream stream;
    EXPECT_TRUE(refused(backend().CreateStream(device, StreamPriority::kNormal, &stream)));
    EXPECT_FALSE(stream);
    DeviceEvent event;
    EXPECT_TRUE(refused(backend().CreateEvent(device, EventKind::kPlain, &event)));
    EXPECT_FALSE(event);
    EXPECT_TRUE(refused(backend().DeviceStatus(device)));
  }
}

TEST_P(BackendConformance, TheNullStreamIsRefused) {
  MeanWrongUse();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> host = NewHost(4096, 1);
  std::byte* device = NewDevice(4096);
  const CopyPiece piece{device, host.data(), 4096};
  const auto refused = [](const Status& status) {
    return FailsWith(StatusCode::kInvalidArgument, status);
  };
  EXPECT_TRUE(refused(backend().Record(event, {})));
  EXPECT_TRUE(refused(backend().StreamWait({}, event)));
  EXPECT_TRUE(refused(backend().CopyToDevice({}, device, host.data(), 4096)));
  EXPECT_TRUE(refused(backend().CopyBatchToDevice({}, {&piece, 1})));
  EXPECT_TRUE(refused(backend().CopyToHost({}, host.data(), device, 4096)));
  EXPECT_TRUE(refused(backend().Fill({}, device, std::byte{1}, 4096)));
  EXPECT_TRUE(refused(backend().Launch({}, WidenTokens{device, device + 2048, 100, kInt64})));
  EXPECT_TRUE(refused(backend().Busy({}, 1000)));
  EXPECT_TRUE(refused(backend().SyncStream({})));
  EXPECT_TRUE(refused(backend().DestroyStream({})));
  EXPECT_TRUE(IsPattern(host, 0, 1));
  // The event was never recorded: it is done.
  bool done = false;
  EXPECT_TRUE(Ok(backend().Query(event, &done)));
  EXPECT_TRUE(done);
}

TEST_P(BackendConformance, TheNullEventIsRefused) {
  MeanWrongUse();
  const DeviceStream stream = NewStream();
  const DeviceEvent timed = NewEvent(0, EventKind::kTimed);
  Finish(stream, timed);
  const auto refused = [](const Status& status) {
    return FailsWith(StatusCode::kInvalidArgument, status);
  };
  EXPECT_TRUE(refused(backend().Record({}, stream)));
  EXPECT_TRUE(refused(backend().StreamWait(stream, {})));
  bool done = false;
  EXPECT_TRUE(refused(backend().Query({}, &done)));
  EXPECT_TRUE(refused(backend().SyncEvent({})));
  EXPECT_TRUE(refused(backend().DestroyEvent({})));
  double milliseconds = 0;
  EXPECT_TRUE(refused(backend().Elapsed({}, timed, &milliseconds)));
  EXPECT_TRUE(refused(backend().Elapsed(timed, {}, &milliseconds)));
}

TEST_P(BackendConformance, AnEventIsNotRecordedOnAnotherDevicesStream) {
  if (!HasDevices(2)) GTEST_SKIP() << "there is one device";
  MeanWrongUse();
  const DeviceStream there = NewStream(1);
  const DeviceEvent here = NewEvent(0);
  EXPECT_TRUE(FailsWith(StatusCode::kInvalidArgument, backend().Record(here, there)));
  const DeviceEvent right = NewEvent(1);
  Finish(there, right);
}

TEST_P(BackendConformance, PlainEventsAreNotMeasuredBetween) {
  MeanWrongUse();
  const DeviceStream stream = NewStream();
  const DeviceEvent plain = NewEvent();
  const DeviceEvent timed = NewEvent(0, EventKind::kTimed);
  Finish(stream, plain);
  Finish(stream, timed);
  double milliseconds = 0;
  const auto refused = [&](DeviceEvent begin, DeviceEvent end) {
    return FailsWith(StatusCode::kInvalidArgument, backend().Elapsed(begin, end, &milliseconds));
  };
  EXPECT_TRUE(refused(plain, timed));
  EXPECT_TRUE(refused(timed, plain));
  EXPECT_TRUE(refused(plain, plain));
  EXPECT_TRUE(Ok(backend().Elapsed(timed, timed, &milliseconds)));
}

TEST_P(BackendConformance, EventsNeverRecordedAreNotMeasuredBetween) {
  MeanWrongUse();
  const DeviceStream stream = NewStream();
  const DeviceEvent recorded = NewEvent(0, EventKind::kTimed);
  const DeviceEvent never = NewEvent(0, EventKind::kTimed);
  Finish(stream, recorded);
  double milliseconds = 0;
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, backend().Elapsed(recorded, never, &milliseconds)));
  EXPECT_TRUE(
      FailsWith(StatusCode::kInvalidArgument, backend().Elapsed(never, recorded, &milliseconds)));
}

TEST_P(BackendConformance, RefusedCallsLeaveWhatWasEnqueuedAlone) {
  MeanWrongUse();
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(10'000, 2);
  std::byte* device = NewDevice(10'000);
  for (std::size_t at = 0; at < 10'000; at += 1000) {
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device + at, from.data() + at, 1000)));
    EXPECT_FALSE(Ok(backend().CopyToDevice({}, device, from.data() + 1, 999)));
    EXPECT_FALSE(Ok(backend().Launch(stream, WidenTokens{nullptr, device, 10, kInt64})));
    std::byte* none = nullptr;
    EXPECT_FALSE(Ok(backend().AllocDevice(backend().DeviceCount(), 100, &none)));
  }
  EXPECT_TRUE(IsPattern(ReadBack(stream, device, 10'000), 0, 2));
  EXPECT_TRUE(Ok(backend().DeviceStatus(0)));
}

}  // namespace
}  // namespace ringfeed
