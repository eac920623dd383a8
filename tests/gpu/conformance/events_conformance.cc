// What an event stands for, at a query, at a wait and after it was recorded anew.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

constexpr std::byte kBefore{0xA7};
constexpr std::size_t kBytes = 5000;
constexpr std::int64_t kWhileNs = 2'000'000;

TEST_P(BackendConformance, AnEventNeverRecordedIsDone) {
  for (const EventKind kind : {EventKind::kPlain, EventKind::kTimed}) {
    const DeviceEvent event = NewEvent(0, kind);
    bool done = false;
    EXPECT_TRUE(Ok(backend().Query(event, &done)));
    EXPECT_TRUE(done);
    EXPECT_TRUE(Ok(backend().SyncEvent(event)));
  }
}

TEST_P(BackendConformance, WhatAnEventStandsForIsVisibleOnceItIsDone) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewFilledDevice(kBytes, std::byte{0x42});
  ASSERT_TRUE(Ok(backend().Busy(stream, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, kBytes)));
  Finish(stream, event);
  EXPECT_TRUE(AreAll(HostRead(to), std::byte{0x42}));
}

TEST_P(BackendConformance, SyncEventWaitsForWhatTheEventStandsFor) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewFilledDevice(kBytes, std::byte{0x42});
  ASSERT_TRUE(Ok(backend().Busy(stream, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  ASSERT_TRUE(Ok(backend().Busy(stream, kWhileNs)));
  ASSERT_TRUE(Ok(backend().SyncEvent(event)));
  EXPECT_TRUE(AreAll(HostRead(to), std::byte{0x42}));
  WaitFor(event);
}

TEST_P(BackendConformance, AWaitOrdersWorkBehindAnotherStreams) {
  const DeviceStream writer = NewStream();
  const DeviceStream reader = NewStream();
  const DeviceEvent written = NewEvent();
  const std::span<std::byte> from = NewHost(kBytes, 1);
  std::byte* device = NewDevice(kBytes);
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(Ok(backend().Fill(writer, device, kBefore, kBytes)));
    ASSERT_TRUE(Ok(backend().Busy(writer, kWhileNs / 10)));
    ASSERT_TRUE(Ok(backend().CopyToDevice(writer, device, from.data(), kBytes)));
    ASSERT_TRUE(Ok(backend().Record(written, writer)));
    ASSERT_TRUE(Ok(backend().StreamWait(reader, written)));
    EXPECT_TRUE(IsPattern(ReadBack(reader, device, kBytes), 0, 1)) << round;
  }
}

// The first stream waits for the second, which waits for what `event` stood for. Were a wait bound
// to what the event stands for when it is reached, they would wait for each other for ever.
TEST_P(BackendConformance, AWaitIsForWhatTheEventStoodForWhenItWasCalled) {
  const DeviceStream first = NewStream();
  const DeviceStream second = NewStream();
  const DeviceEvent event = NewEvent();
  const DeviceEvent answer = NewEvent();
  const std::span<std::byte> from = NewHost(kBytes, 2);
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewDevice(kBytes);
  ASSERT_TRUE(Ok(backend().Busy(first, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(first, device, from.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, first)));
  ASSERT_TRUE(Ok(backend().StreamWait(second, event)));
  ASSERT_TRUE(Ok(backend().CopyToHost(second, to.data(), device, kBytes)));
  ASSERT_TRUE(Ok(backend().Record(answer, second)));
  ASSERT_TRUE(Ok(backend().StreamWait(first, answer)));
  ASSERT_TRUE(Ok(backend().Fill(first, device, std::byte{0x42}, kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, first)));
  WaitFor(event);
  EXPECT_TRUE(IsPattern(HostRead(to), 0, 2));
  EXPECT_TRUE(AreAll(ReadBack(first, device, kBytes), std::byte{0x42}));
}

TEST_P(BackendConformance, AWaitForAnEventNeverRecordedIsForNothing) {
  const DeviceStream first = NewStream();
  const DeviceStream second = NewStream();
  const DeviceEvent event = NewEvent();
  const DeviceEvent answer = NewEvent();
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewFilledDevice(kBytes, std::byte{0x42});
  ASSERT_TRUE(Ok(backend().StreamWait(second, event)));
  ASSERT_TRUE(Ok(backend().Busy(second, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToHost(second, to.data(), device, kBytes)));
  ASSERT_TRUE(Ok(backend().Record(answer, second)));
  // Were the wait for what comes now, each stream would wait for the other.
  ASSERT_TRUE(Ok(backend().StreamWait(first, answer)));
  ASSERT_TRUE(Ok(backend().Record(event, first)));
  WaitFor(event);
  EXPECT_TRUE(AreAll(HostRead(to), std::byte{0x42}));
}

TEST_P(BackendConformance, RecordingAnewReplacesWhatAQueryAnswers) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewDevice(kBytes);
  for (int round = 0; round < 5; ++round) {
    Finish(stream, event);
    const std::byte value{static_cast<unsigned char>(round)};
    ASSERT_TRUE(Ok(backend().Fill(stream, device, value, kBytes)));
    ASSERT_TRUE(Ok(backend().Busy(stream, kWhileNs)));
    ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, kBytes)));
    ASSERT_TRUE(Ok(backend().Record(event, stream)));
    WaitFor(event);
    EXPECT_TRUE(AreAll(HostRead(to), value)) << round;
  }
}

TEST_P(BackendConformance, RecordingAnewReplacesWhatAWaitIsFor) {
  const DeviceStream writer = NewStream();
  const DeviceStream reader = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> from = NewHost(kBytes, 3);
  std::byte* device = NewFilledDevice(kBytes, kBefore);
  Finish(writer, event);
  ASSERT_TRUE(Ok(backend().Busy(writer, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(writer, device, from.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, writer)));
  ASSERT_TRUE(Ok(backend().StreamWait(reader, event)));
  EXPECT_TRUE(IsPattern(ReadBack(reader, device, kBytes), 0, 3));
}

TEST_P(BackendConformance, AnEventMovesToAnotherStream) {
  const DeviceStream first = NewStream();
  const DeviceStream second = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewFilledDevice(kBytes, std::byte{0x42});
  ASSERT_TRUE(Ok(backend().Busy(first, kWhileNs)));
  ASSERT_TRUE(Ok(backend().Record(event, first)));
  ASSERT_TRUE(Ok(backend().CopyToHost(second, to.data(), device, kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, second)));
  WaitFor(event);
  EXPECT_TRUE(AreAll(HostRead(to), std::byte{0x42}));
}

TEST_P(BackendConformance, WaitsAddUp) {
  constexpr std::size_t kWriters = 6;
  const DeviceStream reader = NewStream();
  std::byte* device = NewDevice(kWriters * kBytes);
  for (std::size_t i = 0; i < kWriters; ++i) {
    const DeviceStream writer = NewStream();
    const DeviceEvent event = NewEvent();
    ASSERT_TRUE(Ok(backend().Busy(writer, kWhileNs / 4)));
    ASSERT_TRUE(Ok(backend().Fill(writer, device + i * kBytes, static_cast<std::byte>(i), kBytes)));
    ASSERT_TRUE(Ok(backend().Record(event, writer)));
    ASSERT_TRUE(Ok(backend().StreamWait(reader, event)));
    ASSERT_TRUE(Ok(backend().StreamWait(reader, event)));
  }
  const std::vector<std::byte> all = ReadBack(reader, device, kWriters * kBytes);
  for (std::size_t i = 0; i < kWriters; ++i) {
    EXPECT_TRUE(AreAll(std::span(all).subspan(i * kBytes, kBytes), static_cast<std::byte>(i)));
  }
}

TEST_P(BackendConformance, OrderIsPassedOnFromStreamToStream) {
  constexpr std::size_t kHops = 12;
  std::byte* device = NewDevice(kHops * kBytes);
  const std::span<std::byte> host = NewHost(kHops * kBytes, kBefore);
  const std::span<std::byte> from = NewHost(kBytes, 4);
  DeviceStream stream = NewStream();
  ASSERT_TRUE(Ok(backend().Busy(stream, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, from.data(), kBytes)));
  for (std::size_t hop = 1; hop < kHops; ++hop) {
    std::byte* last = device + (hop - 1) * kBytes;
    std::byte* there = host.data() + hop * kBytes;
    ASSERT_TRUE(Ok(backend().CopyToHost(stream, there, last, kBytes)));
    const DeviceEvent event = NewEvent();
    ASSERT_TRUE(Ok(backend().Record(event, stream)));
    stream = NewStream();
    ASSERT_TRUE(Ok(backend().StreamWait(stream, event)));
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream, last + kBytes, there, kBytes)));
  }
  EXPECT_TRUE(IsPattern(ReadBack(stream, device + (kHops - 1) * kBytes, kBytes), 0, 4));
}

TEST_P(BackendConformance, AWaitMayBeForAnotherDevicesWork) {
  if (!HasDevices(2)) GTEST_SKIP() << "there is one device";
  const DeviceStream here = NewStream(0);
  const DeviceStream there = NewStream(1);
  const DeviceEvent written = NewEvent(0);
  const DeviceEvent read = NewEvent(1);
  const std::span<std::byte> first = NewHost(kBytes, 5);
  const std::span<std::byte> second = NewHost(kBytes, kBefore);
  std::byte* device0 = NewDevice(kBytes, 0);
  std::byte* device1 = NewDevice(kBytes, 1);
  ASSERT_TRUE(Ok(backend().Busy(here, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(here, device0, first.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().CopyToHost(here, second.data(), device0, kBytes)));
  ASSERT_TRUE(Ok(backend().Record(written, here)));
  ASSERT_TRUE(Ok(backend().StreamWait(there, written)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(there, device1, second.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().Record(read, there)));
  // And back: what was read is overwritten behind the read.
  ASSERT_TRUE(Ok(backend().StreamWait(here, read)));
  ASSERT_TRUE(Ok(backend().Fill(here, device0, kBefore, kBytes)));
  ASSERT_TRUE(Ok(backend().CopyToHost(here, second.data(), device0, kBytes)));
  ASSERT_TRUE(Ok(backend().SyncStream(here)));
  EXPECT_TRUE(AreAll(HostRead(second), kBefore));
  EXPECT_TRUE(IsPattern(ReadBack(there, device1, kBytes), 0, 5));
}

TEST_P(BackendConformance, ManyEventsAreInFlight) {
  constexpr std::size_t kStreams = 4;
  constexpr std::size_t kEvents = 500;
  std::array<std::vector<DeviceEvent>, kStreams> events;
  std::array<DeviceStream, kStreams> streams;
  std::byte* device = NewDevice(kStreams * 64);
  for (DeviceStream& stream : streams) stream = NewStream();
  for (std::size_t i = 0; i < kEvents; ++i) {
    for (std::size_t s = 0; s < kStreams; ++s) {
      const auto value = static_cast<std::byte>(i);
      ASSERT_TRUE(Ok(backend().Fill(streams[s], device + s * 64, value, 64)));
      events[s].push_back(NewEvent());
      ASSERT_TRUE(Ok(backend().Record(events[s].back(), streams[s])));
    }
  }
  for (const auto& of_stream : events) {
    // Once one is done, so are those recorded before.
    WaitFor(of_stream[kEvents / 2]);
    for (std::size_t i = kEvents / 2; i-- > 0;) {
      bool done = false;
      ASSERT_TRUE(Ok(backend().Query(of_stream[i], &done)));
      EXPECT_TRUE(done || GetParam().answers_late) << i;
    }
    std::for_each(of_stream.begin(), of_stream.end(), [&](auto event) { WaitFor(event); });
  }
}

TEST_P(BackendConformance, AWaitOutlivesItsEvent) {
  const DeviceStream writer = NewStream();
  const DeviceStream reader = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> from = NewHost(kBytes, 6);
  std::byte* device = NewFilledDevice(kBytes, kBefore);
  ASSERT_TRUE(Ok(backend().Busy(writer, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(writer, device, from.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, writer)));
  ASSERT_TRUE(Ok(backend().StreamWait(reader, event)));
  Destroy(event);
  EXPECT_TRUE(IsPattern(ReadBack(reader, device, kBytes), 0, 6));
}

TEST_P(BackendConformance, ADestroyedEventsHandleMayComeBackUnrecorded) {
  const DeviceStream stream = NewStream();
  for (int round = 0; round < 100; ++round) {
    const DeviceEvent event = NewEvent();
    bool done = false;
    ASSERT_TRUE(Ok(backend().Query(event, &done)));
    EXPECT_TRUE(done) << round;
    ASSERT_TRUE(Ok(backend().Busy(stream, 1000)));
    ASSERT_TRUE(Ok(backend().Record(event, stream)));
    Destroy(event);
  }
}

// Measuring.

TEST_P(BackendConformance, ElapsedIsWhatLiesBetweenTwoEvents) {
  const DeviceStream stream = NewStream();
  const DeviceEvent begin = NewEvent(0, EventKind::kTimed);
  const DeviceEvent end = NewEvent(0, EventKind::kTimed);
  ASSERT_TRUE(Ok(backend().Record(begin, stream)));
  ASSERT_TRUE(Ok(backend().Busy(stream, 5 * kWhileNs)));
  Finish(stream, end);
  double milliseconds = -1;
  ASSERT_TRUE(Ok(backend().Elapsed(begin, end, &milliseconds)));
  // A device's clock may tick slowly.
  EXPECT_GE(milliseconds, GetParam().keeps_time ? 9.5 : 0.0);
  ASSERT_TRUE(Ok(backend().Elapsed(begin, begin, &milliseconds)));
  EXPECT_EQ(milliseconds, 0.0);
}

TEST_P(BackendConformance, TimedEventsOrderStreamsToo) {
  const DeviceStream writer = NewStream();
  const DeviceStream reader = NewStream();
  const DeviceEvent event = NewEvent(0, EventKind::kTimed);
  const std::span<std::byte> from = NewHost(kBytes, 7);
  std::byte* device = NewFilledDevice(kBytes, kBefore);
  ASSERT_TRUE(Ok(backend().Busy(writer, kWhileNs)));
  ASSERT_TRUE(Ok(backend().CopyToDevice(writer, device, from.data(), kBytes)));
  ASSERT_TRUE(Ok(backend().Record(event, writer)));
  ASSERT_TRUE(Ok(backend().StreamWait(reader, event)));
  EXPECT_TRUE(IsPattern(ReadBack(reader, device, kBytes), 0, 7));
}

}  // namespace
}  // namespace ringfeed
