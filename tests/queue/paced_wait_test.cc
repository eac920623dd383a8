#include "ringfeed/detail/paced_wait.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <thread>

namespace ringfeed {
namespace {

/// A clock that moves by polls and sleeps alone. Who sleeps without a deadline is woken by the next
/// item, which takes a while.
struct ClockedPolicy : NativeQueuePolicy {
  static Deadline Now() noexcept { return Deadline(std::chrono::nanoseconds(now_ns)); }
  static bool Expired(Deadline deadline) noexcept {
    return deadline != kNoDeadline && Now() >= deadline;
  }
  static void Pause() noexcept { now_ns += 20; }
  static FutexResult FutexWait(const Atomic<std::uint64_t>&, std::uint32_t,
                               Deadline deadline) noexcept {
    if (deadline != kNoDeadline) {
      SleepUntil(deadline);
      ++futex_timeouts;
      return FutexResult::kTimedOut;
    }
    now_ns = std::max(now_ns, next_item_ns + kWakeNs);
    return FutexResult::kWoken;
  }
  static void SleepUntil(Deadline deadline) noexcept {
    now_ns = std::max<std::int64_t>(now_ns, deadline.time_since_epoch().count());
  }

  static constexpr std::int64_t kWakeNs = 10'000;
  static inline std::int64_t now_ns = 0;
  static inline std::int64_t next_item_ns = 0;
  static inline int futex_timeouts = 0;
};

/// A consumer that takes items and does nothing with them. Items come at a pace, whatever the
/// consumer does, or each only after the one before was taken.
class PacedWaitTest : public testing::Test {
 protected:
  PacedWaitTest() { ClockedPolicy::now_ns = 1'000'000'000; }

  struct Run {
    std::uint64_t parks = 0;
    std::int64_t took_ns = 0;
  };

  QueueResult TakeOne() {
    if (ClockedPolicy::now_ns < ClockedPolicy::next_item_ns) return QueueResult::kEmpty;
    const std::int64_t from =
        waits_for_consumer_ ? ClockedPolicy::now_ns : ClockedPolicy::next_item_ns;
    ++taken_;
    ClockedPolicy::next_item_ns =
        from + (gap_every_ != 0 && taken_ % gap_every_ == 0 ? kGapNs : interval_ns_);
    return QueueResult::kOk;
  }
  std::size_t Ready() const {
    if (waits_for_consumer_ || ClockedPolicy::now_ns < ClockedPolicy::next_item_ns) return 0;
    return static_cast<std::size_t>((ClockedPolicy::now_ns - ClockedPolicy::next_item_ns) /
                                    interval_ns_) +
           1;
  }
  QueueResult Next(WaitLimit<ClockedPolicy> limit = {}) {
    const QueueResult result = TakeOne();
    if (result == QueueResult::kOk) return result;
    return paced_->Await(
        &events_, 0, limit, [this](LookMode) { return TakeOne(); }, [this] { return Ready(); });
  }
  Run Take(std::size_t items) {
    const std::uint64_t parks = events_.Stats().parks;
    const std::int64_t start = ClockedPolicy::now_ns;
    for (std::size_t i = 0; i < items; ++i) EXPECT_EQ(Next(), QueueResult::kOk);
    return {events_.Stats().parks - parks, ClockedPolicy::now_ns - start};
  }
  void Begin(std::int64_t interval_ns, std::size_t nap_items = 8) {
    interval_ns_ = interval_ns;
    ClockedPolicy::next_item_ns = ClockedPolicy::now_ns + interval_ns;
    paced_.emplace(nap_items);
  }

  static constexpr std::int64_t kGapNs = 3'000'000;
  std::int64_t interval_ns_ = 0;
  std::size_t gap_every_ = 0;
  bool waits_for_consumer_ = false;
  std::size_t taken_ = 0;
  BasicEventCount<ClockedPolicy> events_;
  std::optional<PacedWait<ClockedPolicy>> paced_;
};

TEST_F(PacedWaitTest, ItemsAtASteadyPaceAreCollected) {
  for (const std::int64_t interval_ns : {10'000, 50'000, 90'000}) {
    Begin(interval_ns);
    const Run run = Take(10'000);
    EXPECT_LT(run.parks, 50u) << interval_ns;
    EXPECT_LT(run.took_ns, 10'000 * interval_ns + 1'000'000) << interval_ns;
  }
}

// Who sleeps on the futex may be given the only wake, which is for a thread that is a waiter.
TEST_F(PacedWaitTest, WhoNapsTakesNobodysWake) {
  ClockedPolicy::futex_timeouts = 0;
  Begin(50'000);
  EXPECT_LT(Take(1000).parks, 50u);
  EXPECT_EQ(ClockedPolicy::futex_timeouts, 0);
}

TEST_F(PacedWaitTest, AProducerThatIsLateNowAndThenChangesLittle) {
  gap_every_ = 100;
  Begin(50'000);
  EXPECT_LT(Take(10'000).parks, 2000u);
}

TEST_F(PacedWaitTest, ItemsFarApartAreWaitedForOneByOne) {
  Begin(150'000);
  EXPECT_EQ(Take(1000).parks, 1000u);
}

TEST_F(PacedWaitTest, GapsBetweenItemsThatComeThickAndFastAreNoPace) {
  gap_every_ = 1000;
  Begin(40);
  const Run run = Take(100'000);
  EXPECT_LT(run.took_ns, 100'000 * 40 + 100 * (kGapNs + ClockedPolicy::kWakeNs) + 2'000'000);
}

TEST_F(PacedWaitTest, AProducerThatWaitsForItsConsumerIsHeldUpSeldom) {
  waits_for_consumer_ = true;
  Begin(50'000);
  const Run run = Take(10'000);
  const std::int64_t without_naps = 10'000 * (interval_ns_ + ClockedPolicy::kWakeNs);
  EXPECT_LT(run.took_ns, without_naps + without_naps / 100);
}

TEST_F(PacedWaitTest, SmallRingsAndSeveralConsumersHaveNone) {
  Begin(50'000, 1);
  EXPECT_EQ(Take(1000).parks, 1000u);
  Begin(50'000);
  std::uint64_t parks = 0;
  for (int i = 0; i < 100; ++i) {
    std::thread([&] { parks += Take(1).parks; }).join();
    parks += Take(1).parks;
  }
  EXPECT_EQ(parks, 200u);
}

TEST_F(PacedWaitTest, ANapEndsAtTheDeadlineAndIsNotBegunAfterAStop) {
  Begin(50'000);
  (void)Take(1000);
  const Deadline soon = ClockedPolicy::Now() + std::chrono::microseconds(7);
  while (Next({soon, nullptr}) == QueueResult::kOk) {
  }
  EXPECT_EQ(ClockedPolicy::Now(), soon);
  std::stop_source stop;
  stop.request_stop();
  const std::stop_token stopped = stop.get_token();
  EXPECT_EQ(Next({kNoDeadline, &stopped}), QueueResult::kStopped);
  EXPECT_EQ(ClockedPolicy::Now(), soon);
}

}  // namespace
}  // namespace ringfeed
