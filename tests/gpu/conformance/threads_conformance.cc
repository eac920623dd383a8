// Several threads on one backend: all calls may come from any of them.

#include <array>
#include <atomic>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

constexpr std::byte kBefore{0xA7};
constexpr std::size_t kThreads = 4;

// Runs `work(thread)` in that many threads at once.
template <typename Work>
void InThreads(std::size_t count, const Work& work) {
  std::latch all_there(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < count; ++thread) {
    threads.emplace_back([&, thread] {
      all_there.arrive_and_wait();
      work(thread);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(ThreadsConformance, ThreadsWorkOnStreamsOfTheirOwn) {
  constexpr std::size_t kBytes = 30'000;
  std::array<DeviceStream, kThreads> streams;
  std::array<DeviceEvent, kThreads> events;
  std::array<std::span<std::byte>, kThreads> from;
  std::array<std::span<std::byte>, kThreads> to;
  std::array<std::byte*, kThreads> device{};
  for (std::size_t i = 0; i < kThreads; ++i) {
    streams[i] = NewStream();
    events[i] = NewEvent();
    from[i] = NewHost(kBytes, std::byte{0});
    to[i] = NewHost(kBytes, kBefore);
    device[i] = NewDevice(kBytes);
  }
  InThreads(kThreads, [&](std::size_t i) {
    ASSERT_TRUE(Ok(backend().BindThread(0)));
    for (std::size_t round = 0; round < 20; ++round) {
      const std::uint64_t seed = i * 1000 + round;
      for (std::size_t at = 0; at < kBytes; ++at) from[i][at] = PatternByte(at, seed);
      ASSERT_TRUE(Ok(backend().CopyToDevice(streams[i], device[i], from[i].data(), kBytes)));
      ASSERT_TRUE(Ok(backend().CopyToHost(streams[i], to[i].data(), device[i], kBytes)));
      Finish(streams[i], events[i]);
      ASSERT_TRUE(IsPattern(to[i], 0, seed)) << round;
    }
  });
}

TEST_P(ThreadsConformance, ThreadsShareAStream) {
  constexpr std::size_t kPieces = 200;
  constexpr std::size_t kPiece = 500;
  const DeviceStream stream = NewStream();
  const std::span<std::byte> from = NewHost(kThreads * kPieces * kPiece, 1);
  std::byte* device = NewDevice(from.size());
  InThreads(kThreads, [&](std::size_t thread) {
    ASSERT_TRUE(Ok(backend().BindThread(0)));
    for (std::size_t i = 0; i < kPieces; ++i) {
      const std::size_t at = (i * kThreads + thread) * kPiece;
      ASSERT_TRUE(Ok(backend().Fill(stream, device + at, kBefore, kPiece)));
      ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device + at, from.data() + at, kPiece)));
    }
  });
  EXPECT_TRUE(IsPattern(ReadBack(stream, device, from.size()), 0, 1));
}

TEST_P(ThreadsConformance, AnEventIsRecordedByOneThreadAndQueriedByAnother) {
  constexpr std::size_t kRounds = 50;
  constexpr std::size_t kBytes = 5000;
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> to = NewHost(kBytes, kBefore);
  std::byte* device = NewDevice(kBytes);
  std::atomic<std::size_t> recorded{0};
  std::atomic<std::size_t> seen{0};
  std::thread other([&] {
    EXPECT_TRUE(Ok(backend().BindThread(0)));
    for (std::size_t round = 1; round <= kRounds; ++round) {
      for (std::size_t now = 0; (now = recorded.load()) < round;) recorded.wait(now);
      WaitFor(event);
      EXPECT_TRUE(AreAll(to, static_cast<std::byte>(round))) << round;
      seen.store(round);
      seen.notify_one();
    }
  });
  for (std::size_t round = 1; round <= kRounds; ++round) {
    EXPECT_TRUE(Ok(backend().Fill(stream, device, static_cast<std::byte>(round), kBytes)));
    EXPECT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, kBytes)));
    EXPECT_TRUE(Ok(backend().Record(event, stream)));
    recorded.store(round);
    recorded.notify_one();
    for (std::size_t now = 0; (now = seen.load()) < round;) seen.wait(now);
  }
  other.join();
}

TEST_P(ThreadsConformance, ManyThreadsQueryOneEvent) {
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  const std::span<std::byte> to = NewHost(5000, kBefore);
  std::byte* device = NewFilledDevice(5000, std::byte{0x42});
  ASSERT_TRUE(Ok(backend().Busy(stream, 2'000'000)));
  ASSERT_TRUE(Ok(backend().CopyToHost(stream, to.data(), device, 5000)));
  ASSERT_TRUE(Ok(backend().Record(event, stream)));
  InThreads(kThreads, [&](std::size_t thread) {
    ASSERT_TRUE(Ok(backend().BindThread(0)));
    if (thread == 0) {
      ASSERT_TRUE(Ok(backend().SyncEvent(event)));
    } else {
      WaitFor(event);
    }
    EXPECT_TRUE(AreAll(to, std::byte{0x42}));
  });
}

TEST_P(ThreadsConformance, ThreadsMakeAndGiveBackAtOnce) {
  constexpr std::size_t kRounds = 25;
  InThreads(kThreads, [&](std::size_t thread) {
    AlignedBuffer buffer(8192);
    for (std::size_t i = 0; i < 8192; ++i) buffer.data()[i] = PatternByte(i, thread);
    for (std::size_t round = 0; round < kRounds; ++round) {
      ASSERT_TRUE(Ok(backend().BindThread(0)));
      ASSERT_TRUE(Ok(backend().RegisterHost(buffer.data(), buffer.size())));
      std::byte* device = nullptr;
      ASSERT_TRUE(Ok(backend().AllocDevice(0, 8192, &device)));
      DeviceStream stream;
      ASSERT_TRUE(Ok(backend().CreateStream(0, StreamPriority::kNormal, &stream)));
      DeviceEvent event;
      ASSERT_TRUE(Ok(backend().CreateEvent(0, EventKind::kPlain, &event)));
      std::vector<std::byte> back(8192);
      ASSERT_TRUE(Ok(backend().CopyToDevice(stream, device, buffer.data(), 8192)));
      ASSERT_TRUE(Ok(backend().CopyToHost(stream, back.data(), device, 8192)));
      Finish(stream, event);
      EXPECT_TRUE(IsPattern(back, 0, thread));
      EXPECT_TRUE(Ok(backend().DestroyEvent(event)));
      EXPECT_TRUE(Ok(backend().DestroyStream(stream)));
      EXPECT_TRUE(Ok(backend().FreeDevice(0, device)));
      EXPECT_TRUE(Ok(backend().UnregisterHost(buffer.data())));
    }
  });
}

TEST_P(ThreadsConformance, EveryThreadHasADeviceOfItsOwn) {
  if (!HasDevices(2)) GTEST_SKIP() << "there is one device";
  const auto devices = static_cast<std::size_t>(backend().DeviceCount());
  std::vector<DeviceStream> streams;
  std::vector<std::byte*> tokens;
  std::vector<std::byte*> wide;
  for (std::size_t i = 0; i < devices; ++i) {
    const int device = static_cast<int>(i);
    streams.push_back(NewStream(device));
    tokens.push_back(NewFilledDevice(2000, static_cast<std::byte>(i + 1), device));
    wide.push_back(NewDevice(8000, device));
  }
  InThreads(devices, [&](std::size_t i) {
    ASSERT_TRUE(Ok(backend().BindThread(static_cast<int>(i))));
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(Ok(backend().Fill(streams[i], wide[i], kBefore, 8000)));
      ASSERT_TRUE(Ok(backend().Launch(streams[i], WidenTokens{tokens[i], wide[i], 1000, kInt64})));
      std::vector<std::byte> result(8000);
      ASSERT_TRUE(Ok(backend().CopyToHost(streams[i], result.data(), wide[i], 8000)));
      ASSERT_TRUE(Ok(backend().SyncStream(streams[i])));
      for (std::size_t at = 0; at < 8000; ++at) {
        ASSERT_EQ(result[at], at % 8 < 2 ? static_cast<std::byte>(i + 1) : std::byte{0});
      }
    }
  });
}

TEST_P(ThreadsConformance, OneThreadsStreamWaitsForAnothers) {
  constexpr std::size_t kRounds = 50;
  constexpr std::size_t kBytes = 3000;
  const DeviceStream writer = NewStream();
  const DeviceStream reader = NewStream();
  const DeviceEvent written = NewEvent();
  const DeviceEvent read = NewEvent();
  const std::span<std::byte> to = NewHost(kRounds * kBytes, kBefore);
  std::byte* device = NewDevice(kBytes);
  std::atomic<std::size_t> turn{0};
  // The host's threads take turns at enqueueing; the device's order is by the events alone.
  const auto take_turns = [&](std::size_t parity, const auto& enqueue) {
    EXPECT_TRUE(Ok(backend().BindThread(0)));
    for (std::size_t round = 0; round < kRounds; ++round) {
      const std::size_t mine = 2 * round + parity;
      for (std::size_t now = 0; (now = turn.load()) < mine;) turn.wait(now);
      enqueue(round);
      turn.store(mine + 1);
      turn.notify_all();
    }
  };
  InThreads(2, [&](std::size_t thread) {
    if (thread == 0) {
      take_turns(0, [&](std::size_t round) {
        EXPECT_TRUE(Ok(backend().StreamWait(writer, read)));
        EXPECT_TRUE(Ok(backend().Fill(writer, device, static_cast<std::byte>(round), kBytes)));
        EXPECT_TRUE(Ok(backend().Record(written, writer)));
      });
    } else {
      take_turns(1, [&](std::size_t round) {
        EXPECT_TRUE(Ok(backend().StreamWait(reader, written)));
        EXPECT_TRUE(Ok(backend().CopyToHost(reader, &to[round * kBytes], device, kBytes)));
        EXPECT_TRUE(Ok(backend().Record(read, reader)));
      });
    }
  });
  ASSERT_TRUE(Ok(backend().SyncStream(reader)));
  for (std::size_t round = 0; round < kRounds; ++round) {
    EXPECT_TRUE(AreAll(to.subspan(round * kBytes, kBytes), static_cast<std::byte>(round)));
  }
}

TEST_P(ThreadsConformance, CountersAddUpOverThreads) {
  constexpr std::size_t kRounds = 200;
  std::array<DeviceStream, kThreads> streams;
  std::array<DeviceEvent, kThreads> events;
  for (DeviceStream& stream : streams) stream = NewStream();
  for (DeviceEvent& event : events) event = NewEvent();
  const BackendCounters before = backend().Counters();
  InThreads(kThreads, [&](std::size_t i) {
    ASSERT_TRUE(Ok(backend().BindThread(0)));
    for (std::size_t round = 0; round < kRounds; ++round) {
      bool done = false;
      ASSERT_TRUE(Ok(backend().Record(events[i], streams[i])));
      ASSERT_TRUE(Ok(backend().StreamWait(streams[i], events[i])));
      ASSERT_TRUE(Ok(backend().Query(events[i], &done)));
    }
  });
  const BackendCounters now = backend().Counters();
  EXPECT_EQ(now.records - before.records, kThreads * kRounds);
  EXPECT_EQ(now.stream_waits - before.stream_waits, kThreads * kRounds);
  EXPECT_EQ(now.queries - before.queries, kThreads * kRounds);
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ThreadsConformance);

}  // namespace ringfeed
