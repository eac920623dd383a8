// One thread is stopped at each atomic operation of a push and of a pop in turn, while another
// goes on. What "lock-free" promises is that the other does not notice.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <semaphore>
#include <thread>
#include <vector>

#include "ringfeed/queue/mpmc_ring.h"

namespace ringfeed {
namespace {

// Stops the thread that arms it before one of its atomic operations.
class Stopper {
 public:
  // Before the operation after `steps` more.
  void Arm(int steps) {
    armed = this;
    left = steps;
  }
  void Disarm() { armed = nullptr; }
  // Waits until the thread is stopped, or has come to its end: false.
  bool AwaitStopped() {
    reached_.acquire();
    return stopped_.load();
  }
  void ReachEnd() { reached_.release(); }
  void Release() { go_.release(); }

  static void Step() {
    if (armed == nullptr || left-- != 0) return;
    Stopper& self = *armed;
    self.stopped_ = true;
    self.reached_.release();
    self.go_.acquire();
    armed = nullptr;
  }

 private:
  static thread_local Stopper* armed;
  static thread_local int left;
  std::atomic<bool> stopped_{false};
  std::counting_semaphore<> reached_{0};
  std::counting_semaphore<> go_{0};
};

thread_local Stopper* Stopper::armed = nullptr;
thread_local int Stopper::left = 0;

template <typename U>
class SteppedAtomic : public std::atomic<U> {
  using Base = std::atomic<U>;

 public:
  using Base::Base;
  U load(std::memory_order order) const {
    Stopper::Step();
    return Base::load(order);
  }
  void store(U value, std::memory_order order) {
    Stopper::Step();
    Base::store(value, order);
  }
  bool compare_exchange_weak(U& expected, U desired, std::memory_order success,
                             std::memory_order failure) {
    Stopper::Step();
    return Base::compare_exchange_weak(expected, desired, success, failure);
  }
  U fetch_add(U operand, std::memory_order order) {
    Stopper::Step();
    return Base::fetch_add(operand, order);
  }
  U fetch_or(U operand, std::memory_order order) {
    Stopper::Step();
    return Base::fetch_or(operand, order);
  }
};

struct SteppedPolicy : NativeQueuePolicy {
  template <typename U>
  using Atomic = SteppedAtomic<U>;
};

constexpr std::uint64_t kStopped = 1'000'000;  // the item of the thread that is stopped
constexpr std::size_t kCapacity = 4;

template <typename Ring>
class StoppedRun {
 public:
  StoppedRun() {
    for (int i = 0; i < 2; ++i) (void)ring_.TryPush(next_in_++);
  }

  // False: the operation has fewer steps than that.
  bool StopAt(int steps, bool push) {
    std::thread thread([&] {
      stopper_.Arm(steps);
      if (push) {
        (void)ring_.TryPush(std::uint64_t{kStopped});
      } else {
        popped_ = ring_.TryPop(stopped_item_) == QueueResult::kOk;
      }
      stopper_.Disarm();
      stopper_.ReachEnd();
    });
    const bool stopped = stopper_.AwaitStopped();
    if (stopped) GoOn();
    stopper_.Release();
    thread.join();
    if (popped_) Take(stopped_item_);
    for (std::uint64_t item = 0; ring_.TryPop(item) == QueueResult::kOk;) Take(item);
    return stopped;
  }

  bool held_up() const { return held_up_; }
  // Every item came out once, whoever took it.
  bool Complete(bool push) const {
    return taken_ == next_in_ && times_of_stopped_ == (push ? 1 : 0) && sum_ == Sum(next_in_);
  }

 private:
  static std::uint64_t Sum(std::uint64_t n) { return n * (n - 1) / 2; }

  // Several times around the ring.
  void GoOn() {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < 10 * kCapacity && !held_up_; ++i) {
      std::uint64_t item = next_in_;
      held_up_ = ring_.TryPush(std::move(item)) != QueueResult::kOk;
      if (held_up_) return;
      ++next_in_;
      held_up_ = ring_.TryPop(item) != QueueResult::kOk;
      if (held_up_) return;
      Take(item);
      if (item == kStopped) continue;
      EXPECT_GE(item, last);
      last = item;
    }
  }

  void Take(std::uint64_t item) {
    if (item == kStopped) {
      ++times_of_stopped_;
    } else {
      ++taken_;
      sum_ += item;
    }
  }

  Ring ring_{kCapacity};
  Stopper stopper_;
  std::uint64_t stopped_item_ = 0;
  bool popped_ = false;
  bool held_up_ = false;
  std::uint64_t next_in_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t sum_ = 0;
  int times_of_stopped_ = 0;
};

// At how many of the places the others were held up.
template <typename Ring>
int PlacesThatHoldUpOthers(bool push) {
  int places = 0;
  int steps = 0;
  for (bool more = true; more && steps < 100; ++steps) {
    StoppedRun<Ring> run;
    more = run.StopAt(steps, push);
    places += run.held_up() ? 1 : 0;
    EXPECT_TRUE(run.Complete(push)) << "stopped before operation " << steps;
  }
  EXPECT_GT(steps, 4) << "the operation was not stopped at all";
  EXPECT_LT(steps, 100);
  return places;
}

TEST(StoppedThread, OthersGoOnWhereverAPushIsStopped) {
  EXPECT_EQ((PlacesThatHoldUpOthers<MpmcRing<std::uint64_t, SteppedPolicy>>(true)), 0);
}

TEST(StoppedThread, OthersGoOnWhereverAPopIsStopped) {
  EXPECT_EQ((PlacesThatHoldUpOthers<MpmcRing<std::uint64_t, SteppedPolicy>>(false)), 0);
}

// What most rings are: each slot has a number that says whose turn it is there. A thread that is
// stopped behind its claim holds up everybody.
class RingOfTurns {
 public:
  explicit RingOfTurns(std::size_t capacity) : slots_(capacity) {
    for (std::size_t i = 0; i < capacity; ++i) slots_[i].turn.store(2 * i, kRelease);
  }
  QueueResult TryPush(std::uint64_t&& item) {
    std::uint64_t pos = 0;
    if (!Claim(tail_, 0, pos)) return QueueResult::kFull;
    At(pos).item = item;
    At(pos).turn.store(2 * pos + 1, kRelease);
    return QueueResult::kOk;
  }
  QueueResult TryPop(std::uint64_t& item) {
    std::uint64_t pos = 0;
    if (!Claim(head_, 1, pos)) return QueueResult::kEmpty;
    item = At(pos).item;
    At(pos).turn.store(2 * (pos + slots_.size()), kRelease);
    return QueueResult::kOk;
  }

 private:
  struct Slot {
    SteppedAtomic<std::uint64_t> turn{0};
    std::uint64_t item = 0;
  };
  static constexpr auto kAcquire = std::memory_order_acquire;
  static constexpr auto kRelease = std::memory_order_release;

  Slot& At(std::uint64_t pos) { return slots_[pos % slots_.size()]; }
  bool Claim(SteppedAtomic<std::uint64_t>& next, std::uint64_t wanted, std::uint64_t& pos) {
    pos = next.load(kAcquire);
    for (;;) {
      const std::uint64_t turn = At(pos).turn.load(kAcquire);
      if (turn < 2 * pos + wanted) return false;
      if (turn > 2 * pos + wanted) {
        pos = next.load(kAcquire);
      } else if (next.compare_exchange_weak(pos, pos + 1, kAcquire, kAcquire)) {
        return true;
      }
    }
  }

  std::vector<Slot> slots_;
  SteppedAtomic<std::uint64_t> head_{0};
  SteppedAtomic<std::uint64_t> tail_{0};
};

// A proof that the tests above can fail.
TEST(StoppedThread, ARingOfTurnsIsHeldUpBetweenClaimAndPublication) {
  EXPECT_EQ(PlacesThatHoldUpOthers<RingOfTurns>(true), 1);
  EXPECT_EQ(PlacesThatHoldUpOthers<RingOfTurns>(false), 1);
}

}  // namespace
}  // namespace ringfeed
