// Close, cancel, stop and deadline against every combination of blocked sides, each once for a
// ring. A watchdog ends the program if one of them hangs.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

#include "ringfeed/queue/channel.h"
#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/queue/sequenced_ring.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// Looks, and not a time: where the whole machine stood still, the watchdog did so as well.
constexpr int kLooksInVain = 250;
constexpr std::chrono::milliseconds kBetweenLooks{20};

class Watchdog {
 public:
  Watchdog() : thread_([this](const std::stop_token& stop) { Watch(stop); }) {}
  void Pat() { rounds_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void Watch(const std::stop_token& stop) {
    int in_vain = 0;
    for (int seen = -1; !stop.stop_requested();) {
      std::this_thread::sleep_for(kBetweenLooks);
      const int now = rounds_.load(std::memory_order_relaxed);
      in_vain = now == seen ? in_vain + 1 : 0;
      seen = now;
      if (in_vain == kLooksInVain) {
        std::fprintf(stderr, "round %d hangs\n", now);
        std::abort();
      }
    }
  }

  std::atomic<int> rounds_{0};
  std::jthread thread_;
};

enum class End { kClose, kCancel, kStop, kDeadline, kKinds };

// What happens in one round, derived from its number.
struct Round {
  explicit Round(int n)
      : end(static_cast<End>(n % static_cast<int>(End::kKinds))),
        producers(n / 4 % 3),
        consumers(n / 12 % 3),
        bulk(n / 36 % 2 == 1),
        delay(n / 72 % 40) {}

  End end;
  int producers;
  int consumers;
  bool bulk;
  int delay;
};

void Delay(int steps) {
  for (int i = 0; i < steps; ++i) {
    if (i % 8 == 7) {
      std::this_thread::yield();
    } else {
      NativeQueuePolicy::Pause();
    }
  }
}

// The threads live as long as the test: starting them costs more than a round.
class Crew {
 public:
  explicit Crew(int size) {
    for (int i = 0; i < size; ++i) {
      threads_.emplace_back([this, i](const std::stop_token&) { Work(i); });
    }
  }
  ~Crew() { jobs_.Close(); }

  template <typename Job>
  void Start(Job job) {
    running_.fetch_add(1, std::memory_order_relaxed);
    jobs_.Push(std::function<void()>(std::move(job)));
  }
  void Wait() {
    while (running_.load(std::memory_order_acquire) != 0) {
      const auto key = done_.PrepareWait();
      if (running_.load(std::memory_order_acquire) == 0) {
        done_.CancelWait(key);
      } else {
        done_.CommitWait(key);
      }
    }
  }

 private:
  void Work(int) {
    std::function<void()> job;
    while (jobs_.Pop(job) == QueueResult::kOk) {
      job();
      running_.fetch_sub(1, std::memory_order_release);
      done_.NotifyAll();
    }
  }

  Channel<std::function<void()>> jobs_{8};
  std::atomic<int> running_{0};
  EventCount done_;
  std::vector<std::jthread> threads_;
};

bool Expected(End end, QueueResult result) {
  switch (end) {
    case End::kStop:
      return result == QueueResult::kStopped;
    case End::kDeadline:
      return result == QueueResult::kTimeout;
    default:
      return result == QueueResult::kClosed;
  }
}

class RingShutdown {
 public:
  RingShutdown(Crew& crew, const Round& round) : round_(round), ring_(2, {.spin_ns = round.delay}) {
    if (round.end == End::kDeadline) {
      deadline_ = DeadlineAfter(std::chrono::microseconds(round.delay * 5));
    }
    for (int p = 0; p < round.producers; ++p) crew.Start([this] { Produce(); });
    for (int c = 0; c < round.consumers; ++c) crew.Start([this] { Consume(); });
    Delay(round.delay * 4);
    if (round.end == End::kClose) ring_.Close();
    if (round.end == End::kCancel) ring_.Cancel();
    if (round.end == End::kStop) stop_.request_stop();
    crew.Wait();
    if (round.end == End::kClose && round.consumers > 0) {
      EXPECT_EQ(pushed_.load(), popped_.load());
    }
    EXPECT_LE(popped_.load(), pushed_.load());
    EXPECT_LE(pushed_.load(), popped_.load() + ring_.Capacity());
  }

 private:
  void Produce() {
    for (;;) {
      std::array<std::uint64_t, 3> items{1, 1, 1};
      BulkResult bulk;
      if (round_.bulk) {
        bulk = ring_.PushBulk(items, deadline_, stop_.get_token());
      } else {
        bulk.result = ring_.PushUntil(1, deadline_, stop_.get_token());
        bulk.count = bulk.result == QueueResult::kOk ? 1 : 0;
      }
      pushed_ += bulk.count;
      if (bulk.result == QueueResult::kOk && !Over()) continue;
      EXPECT_TRUE(bulk.result == QueueResult::kOk || Expected(round_.end, bulk.result));
      return;
    }
  }

  void Consume() {
    for (;;) {
      std::array<std::uint64_t, 3> items{};
      BulkResult bulk;
      if (round_.bulk) {
        bulk = ring_.PopBulk(items, 2, deadline_, stop_.get_token());
      } else {
        bulk.result = ring_.PopUntil(items[0], deadline_, stop_.get_token());
        bulk.count = bulk.result == QueueResult::kOk ? 1 : 0;
      }
      popped_ += bulk.count;
      if (bulk.result == QueueResult::kOk && !Over()) continue;
      EXPECT_TRUE(bulk.result == QueueResult::kOk || Expected(round_.end, bulk.result));
      return;
    }
  }

  // Stop and deadline end waits only; where both sides are at work nobody need ever wait.
  bool Over() const {
    return stop_.stop_requested() || (deadline_ != kNoDeadline && QueueClock::now() >= deadline_);
  }

  const Round round_;
  MpmcRing<std::uint64_t> ring_;
  Deadline deadline_ = kNoDeadline;
  std::stop_source stop_;
  std::atomic<std::uint64_t> pushed_{0};
  std::atomic<std::uint64_t> popped_{0};
};

TEST(RingShutdownRace, ReleasesEveryBlockedThread) {
  Watchdog watchdog;
  Crew crew(4);
  const int rounds = StressRounds(2880);
  for (int n = 0; n < rounds; ++n) {
    RingShutdown shutdown(crew, Round(n));
    watchdog.Pat();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << n;
  }
}

void SequencedShutdown(Crew& crew, const Round& round) {
  SequencedRing<std::uint64_t> ring(2, {.spin_ns = round.delay});
  std::stop_source stop;
  std::atomic<std::uint64_t> granted{0};
  const Deadline deadline = round.end == End::kDeadline
                                ? DeadlineAfter(std::chrono::microseconds(round.delay * 5))
                                : kNoDeadline;
  for (int p = 0; p < round.producers; ++p) {
    crew.Start([&] {
      QueueResult result = QueueResult::kOk;
      while (result == QueueResult::kOk && !stop.stop_requested()) {
        const std::uint64_t k = granted.fetch_add(1, std::memory_order_relaxed);
        result = ring.PutUntil(k, std::uint64_t{k}, deadline, stop.get_token());
        if (deadline != kNoDeadline && QueueClock::now() >= deadline) break;
      }
    });
  }
  for (int c = 0; c < round.consumers; ++c) {
    crew.Start([&] {
      std::uint64_t item = 0;
      while (ring.PopUntil(item, deadline, stop.get_token()) == QueueResult::kOk &&
             !stop.stop_requested() && (deadline == kNoDeadline || QueueClock::now() < deadline)) {
      }
    });
  }
  Delay(round.delay * 4);
  // Those who hold a number below the end put it if consumers make room, so the end must lie
  // where nobody waits for what never comes: at the start.
  if (round.end == End::kClose || round.end == End::kCancel) ring.Close(0);
  if (round.end == End::kStop) stop.request_stop();
  crew.Wait();
}

TEST(ShutdownRace, SequencedRingReleasesEveryBlockedThread) {
  Watchdog watchdog;
  Crew crew(4);
  const int rounds = StressRounds(2880);
  for (int n = 0; n < rounds; ++n) {
    SequencedShutdown(crew, Round(n));
    watchdog.Pat();
  }
}

TEST(ShutdownRace, KilledChannelFailsEveryBlockedThreadAndNeverEndsOrdinarily) {
  Watchdog watchdog;
  Crew crew(4);
  const int rounds = StressRounds(2880);
  for (int n = 0; n < rounds; ++n) {
    const Round round(n);
    Channel<int> channel(2, {.spin_ns = round.delay});
    for (int p = 0; p < round.producers; ++p) {
      crew.Start([&] {
        while (channel.Push(1)) {
        }
        EXPECT_TRUE(channel.IsClosed());
      });
    }
    for (int c = 0; c < round.consumers; ++c) {
      crew.Start([&] {
        int item = 0;
        QueueResult result = QueueResult::kOk;
        while (result == QueueResult::kOk) result = channel.Pop(item);
        EXPECT_EQ(result, QueueResult::kFailed);
        EXPECT_EQ(channel.status().code(), StatusCode::kIoError);
      });
    }
    Delay(round.delay * 4);
    channel.Kill(Status(StatusCode::kIoError, "disk"));
    crew.Wait();
    watchdog.Pat();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << n;
  }
}

}  // namespace
}  // namespace ringfeed
