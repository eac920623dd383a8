#include "ringfeed/queue/event_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

TEST(EventCount, NotifyBetweenPrepareAndCommitIsNotMissed) {
  EventCount events;
  const auto key = events.PrepareWait();
  events.Notify();
  EXPECT_TRUE(events.CommitWait(key));
}

TEST(EventCount, NotifyBeforePrepareDoesNotWake) {
  EventCount events;
  events.Notify();
  const auto key = events.PrepareWait();
  EXPECT_FALSE(events.CommitWait(key, DeadlineAfter(milliseconds(1))));
}

TEST(EventCount, DeadlineInThePastReturnsAtOnce) {
  EventCount events;
  EXPECT_FALSE(events.CommitWait(events.PrepareWait(), Deadline{}));
  EXPECT_FALSE(events.CommitWait(events.PrepareWait(), Deadline{} - milliseconds(5)));
}

TEST(EventCount, NotifyAllWakesEverySleeper) {
  EventCount events;
  std::atomic<bool> ready{false};
  auto wait = [&] {
    while (!ready.load(std::memory_order_relaxed)) {
      const auto key = events.PrepareWait();
      if (ready.load(std::memory_order_relaxed)) {
        events.CancelWait(key);
      } else {
        events.CommitWait(key);
      }
    }
  };
  std::thread a(wait);
  std::thread b(wait);
  std::thread c(wait);
  std::this_thread::sleep_for(milliseconds(5));
  ready.store(true, std::memory_order_relaxed);
  events.NotifyAll();
  a.join();
  b.join();
  c.join();
}

TEST(EventCount, CancelledRegistrationCostsNoWake) {
  EventCount events;
  events.CancelWait(events.PrepareWait());
  events.Notify();
  EXPECT_EQ(events.Stats().wakes, 0U);
}

TEST(EventCount, AwaitEndsByStopToken) {
  EventCount events;
  std::stop_source source;
  const std::stop_token token = source.get_token();
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(5));
    source.request_stop();
  });
  const QueueResult result =
      events.Await(0, {kNoDeadline, &token}, [](LookMode) { return QueueResult::kEmpty; });
  EXPECT_EQ(result, QueueResult::kStopped);
  stopper.join();
}

TEST(EventCount, AwaitWithDeadlineInThePastNeitherLooksNorSleeps) {
  EventCount events;
  int looks = 0;
  const auto look = [&](LookMode) {
    ++looks;
    return QueueResult::kEmpty;
  };
  const std::stop_token never;
  EXPECT_EQ(events.Await(kAdaptiveSpin, {Deadline{}, &never}, look), QueueResult::kTimeout);
  EXPECT_EQ(looks, 0);
  EXPECT_EQ(events.Stats().parks, 0U);
}

TEST(DeadlineAfter, SaturatesInsteadOfOverflowing) {
  EXPECT_EQ(DeadlineAfter(QueueClock::duration::max()), kNoDeadline);
}

// Time passes only in pauses and in sleep; what is waited for comes `gap` after a wait began.
struct ClockedPolicy : NativeQueuePolicy {
  static inline Deadline now{};
  static inline Deadline due{};
  static inline std::chrono::nanoseconds polled{};

  static Deadline Now() noexcept { return now; }
  static void Pause() noexcept {
    now += std::chrono::nanoseconds(50);
    polled += std::chrono::nanoseconds(50);
  }
  static FutexResult FutexWait(const Atomic<std::uint64_t>& /*word*/, std::uint32_t /*epoch*/,
                               Deadline deadline) noexcept {
    if (deadline < due) {
      now = std::max(now, deadline);
      return FutexResult::kTimedOut;
    }
    now = std::max(now, due) + std::chrono::microseconds(8);
    return FutexResult::kWoken;
  }
};

// How long the last of many such waits polled.
std::chrono::nanoseconds PolledOfWaits(BasicEventCount<ClockedPolicy>* events,
                                       std::chrono::nanoseconds gap, std::int64_t spin_ns) {
  for (int wait = 0; wait < 100; ++wait) {
    ClockedPolicy::due = ClockedPolicy::now + gap;
    ClockedPolicy::polled = {};
    const auto attempt = [](LookMode) {
      return ClockedPolicy::now >= ClockedPolicy::due ? QueueResult::kOk : QueueResult::kEmpty;
    };
    EXPECT_EQ(events->Await(spin_ns, {}, attempt), QueueResult::kOk);
  }
  return ClockedPolicy::polled;
}

TEST(EventCount, AdaptivePollingStaysAwakeForWhatComesSoonAndSleepsForTheRest) {
  BasicEventCount<ClockedPolicy> events;
  using std::chrono::microseconds;
  EXPECT_GE(PolledOfWaits(&events, microseconds(15), kAdaptiveSpin), microseconds(15));
  EXPECT_LT(PolledOfWaits(&events, microseconds(50), kAdaptiveSpin), microseconds(1));
  EXPECT_GE(PolledOfWaits(&events, microseconds(15), kAdaptiveSpin), microseconds(15));
  EXPECT_LT(PolledOfWaits(&events, microseconds(15), 2000), microseconds(3));
}

// As one who tries for a moment first, and waits then: the tries must not say that polling pays.
TEST(EventCount, AdaptivePollingLearnsNothingFromDeadlinesThatComeSoon) {
  BasicEventCount<ClockedPolicy> events;
  using std::chrono::microseconds;
  ASSERT_LT(PolledOfWaits(&events, microseconds(50), kAdaptiveSpin), microseconds(1));
  ClockedPolicy::due = ClockedPolicy::now + std::chrono::seconds(1);
  for (int tried = 0; tried < 100; ++tried) {
    const WaitLimit<ClockedPolicy> soon{.deadline = ClockedPolicy::now + microseconds(2)};
    EXPECT_EQ(events.Await(kAdaptiveSpin, soon, [](LookMode) { return QueueResult::kEmpty; }),
              QueueResult::kTimeout);
  }
  ClockedPolicy::polled = {};
  EXPECT_EQ(events.Await(kAdaptiveSpin, {},
                         [](LookMode) {
                           return ClockedPolicy::now >= ClockedPolicy::due ? QueueResult::kOk
                                                                           : QueueResult::kEmpty;
                         }),
            QueueResult::kOk);
  EXPECT_LT(ClockedPolicy::polled, microseconds(1));
}

}  // namespace
}  // namespace ringfeed
