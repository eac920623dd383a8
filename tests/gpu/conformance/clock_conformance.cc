// Time as the devices have it, and what was counted.

#include <array>
#include <cstdint>

#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

TEST_P(BackendConformance, TimeNeverRunsBack) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  std::int64_t last = backend().NowNanos();
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(Ok(backend().Busy(stream, 1000)));
    if (round % 3 == 0) Finish(stream, event);
    if (round % 5 == 0) backend().Idle(last + 1000);
    const std::int64_t now = backend().NowNanos();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST_P(BackendConformance, IdleReturnsWhenItsTimeIsOver) {
  const std::int64_t begin = backend().NowNanos();
  const std::int64_t until = begin + 1'000'000;
  while (backend().NowNanos() < until) backend().Idle(until);
  if (GetParam().virtual_time) {
    EXPECT_EQ(backend().NowNanos(), until);
  } else {
    EXPECT_GE(backend().NowNanos(), until);
  }
}

TEST_P(BackendConformance, IdleUntilThePastReturnsAtOnce) {
  const std::int64_t begin = backend().NowNanos();
  backend().Idle(begin);
  backend().Idle(begin - 1'000'000);
  backend().Idle(0);
  if (GetParam().virtual_time) {
    EXPECT_EQ(backend().NowNanos(), begin);
  }
  EXPECT_GE(backend().NowNanos(), begin);
}

TEST_P(BackendConformance, IdleDoesNotSleepPastItsTimeWhereMuchIsToDo) {
  const DeviceStream stream = NewStream();
  ASSERT_TRUE(Ok(backend().Busy(stream, 3'000'000)));
  ASSERT_TRUE(Ok(backend().Busy(stream, 3'000'000)));
  for (int round = 0; round < 10; ++round) {
    const std::int64_t until = backend().NowNanos() + 100'000;
    backend().Idle(until);
    if (GetParam().virtual_time) {
      EXPECT_LE(backend().NowNanos(), until) << round;
    }
  }
}

TEST_P(BackendConformance, WorkGetsDoneWhileTheHostIdles) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> to = NewHost(1000, std::byte{1});
  std::byte* device = NewFilledDevice(1000, std::byte{2});
  ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, 1000)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  bool done = false;
  for (int look = 0; look < 1'000'000 && !done; ++look) {
    backend().Idle(backend().NowNanos() + 20'000);
    ASSERT_TRUE(Ok(backend().Query(event, &done)));
  }
  ASSERT_TRUE(done);
  EXPECT_TRUE(AreAll(HostRead(to), std::byte{2}));
}

// Counting.

TEST_P(BackendConformance, CallsAreCounted) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> from = NewHost(4096, 1);
  std::byte* device = NewDevice(4096);
  std::byte* wide = NewDevice(4096);
  const std::array<CopyPiece, 3> pieces = {CopyPiece{device, from.data(), 100},
                                           CopyPiece{device + 200, from.data(), 200},
                                           CopyPiece{device + 600, from.data(), 300}};
  const BackendCounters before = backend().Counters();
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), 4096)));
  ASSERT_TRUE(Ok(backend().CopyBatchToDevice(stream, pieces)));
  ASSERT_TRUE(Ok(backend().Launch(stream, WidenTokens{device, wide, 100, kInt32})));
  ASSERT_TRUE(Ok(backend().Launch(stream, WidenTokens{device, wide, 100, kInt64})));
  ASSERT_TRUE(Ok(backend().Busy(stream, 1000)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  ASSERT_TRUE(Ok(backend().StreamWait(stream, event)));
  bool done = false;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Ok(backend().Query(event, &done)));
  ASSERT_TRUE(Ok(backend().SyncEvent(event)));
  ASSERT_TRUE(Ok(backend().SyncStream(stream)));
  const BackendCounters now = backend().Counters();
  EXPECT_EQ(now.copies - before.copies, 4u);
  EXPECT_EQ(now.copied_bytes - before.copied_bytes, 4696u);
  EXPECT_EQ(now.launches - before.launches, 3u);
  EXPECT_EQ(now.records - before.records, 3u);
  EXPECT_EQ(now.stream_waits - before.stream_waits, 1u);
  EXPECT_EQ(now.queries - before.queries, 4u);
  EXPECT_EQ(now.syncs - before.syncs, 2u);
  EXPECT_EQ(now.allocations - before.allocations, 0u);
}

TEST_P(BackendConformance, WhatIsMadeAndGivenBackIsCounted) {
  const BackendCounters before = backend().Counters();
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  std::byte* device = NewDevice(1000);
  AlignedBuffer buffer(4096);
  ASSERT_TRUE(Ok(backend().RegisterHost(buffer.data(), buffer.size())));
  const BackendCounters made = backend().Counters();
  EXPECT_EQ(made.allocations - before.allocations, 4u);
  Destroy(stream);
  Destroy(event);
  Free(device);
  ASSERT_TRUE(Ok(backend().UnregisterHost(buffer.data())));
  EXPECT_EQ(backend().Counters().allocations - made.allocations, 4u);
}

TEST_P(BackendConformance, FailedCallsAreCountedToo) {
  MeanWrongUse();
  const DeviceStream stream = NewStream();
  const BackendCounters before = backend().Counters();
  EXPECT_FALSE(Ok(backend().Record({}, stream)));
  bool done = false;
  EXPECT_FALSE(Ok(backend().Query({}, &done)));
  EXPECT_FALSE(Ok(backend().StreamWait(stream, {})));
  const BackendCounters now = backend().Counters();
  EXPECT_EQ(now.records - before.records, 1u);
  EXPECT_EQ(now.queries - before.queries, 1u);
  EXPECT_EQ(now.stream_waits - before.stream_waits, 1u);
}

}  // namespace
}  // namespace ringfeed
