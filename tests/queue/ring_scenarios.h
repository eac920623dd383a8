#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "ringfeed/queue/channel.h"
#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/queue/sequenced_ring.h"
#include "tests/queue/model_policy.h"

namespace ringfeed::checker {

// Small programs on the real rings for the explorer. Each checks that nothing hangs, nothing is
// lost or taken twice, and order holds, in every execution.

enum class Ending : std::uint8_t {
  kNone,            // nobody closes; each consumer takes one item and leaves
  kAfterProducers,  // the producer that finishes last closes
  kAnyTime,         // a thread of its own closes
  kCancel,          // a thread of its own cancels
};

struct MpmcScenario {
  int producers = 1;
  int consumers = 1;
  int items = 1;  // per producer
  Ending ending = Ending::kAnyTime;
  std::size_t capacity = 2;
  bool push_bulk = false;
  bool pop_bulk = false;
  bool deadlines = false;  // consumer 0 and producer 0 may run out of time
  bool stop = false;       // a thread of its own stops consumer 0
  bool fresh = false;      // nothing was ever pushed; races on the items' storage go unseen
  bool full = false;       // the ring is full of items of nobody's when the threads start
};

inline constexpr int kMaxItems = 8;

// What one thread did, kept between its operations and settled into the explored state.
struct Account {
  std::uint32_t items = 0;  // bit per item pushed, or popped
  bool left_early = false;

  void Settle() const {
    Explorer::Get().Settle(static_cast<std::uint64_t>(items) << 1 | (left_early ? 1 : 0));
  }
};

// The rings that a program runs on; tests/queue/make_mutants.py makes others.
struct ShippedRings {
  template <typename T, typename Policy>
  using Mpmc = MpmcRing<T, Policy>;
  template <typename T, typename Policy>
  using Sequenced = SequencedRing<T, Policy>;
};

template <typename Policy, typename Rings>
class MpmcRun {
 public:
  explicit MpmcRun(const MpmcScenario& scenario)
      : scenario_(scenario), ring_(scenario.capacity), producers_left_(Left(scenario)) {
    // Once around, so that the explorer knows each slot's storage.
    TrackedItem item;
    for (std::size_t i = 0; !scenario.fresh && i < scenario.capacity; ++i) {
      (void)ring_.TryPush(TrackedItem(0));
      (void)ring_.TryPop(item);
    }
    for (std::size_t i = 0; scenario.full && i < scenario.capacity; ++i) {
      const int value = Total() + static_cast<int>(i);
      (void)ring_.TryPush(TrackedItem(value));
      pushed_.back().items |= 1U << value;
    }
  }

  void operator()() {
    auto& explorer = Explorer::Get();
    for (int p = 0; p < scenario_.producers; ++p) explorer.Spawn([this, p] { Produce(p); });
    for (int c = 0; c < scenario_.consumers; ++c) explorer.Spawn([this, c] { Consume(c); });
    if (scenario_.ending == Ending::kAnyTime || scenario_.ending == Ending::kCancel) {
      explorer.Spawn([this] { End(); });
    }
    if (scenario_.stop) explorer.Spawn([this] { stop_.RequestStop(); });
    if (explorer.Run()) Check();
  }

 private:
  static std::uint64_t Left(const MpmcScenario& scenario) {
    return static_cast<std::uint64_t>(scenario.producers);
  }
  int Total() const { return scenario_.producers * scenario_.items; }
  // Ahead of the model's clock, which stands still: the explorer chooses when it has come.
  Deadline DeadlineOf(int thread) const {
    return scenario_.deadlines && thread == 0 ? Deadline{} + std::chrono::nanoseconds(1)
                                              : kNoDeadline;
  }

  void Produce(int p) {
    Account& account = pushed_[static_cast<std::size_t>(p)];
    const int first = p * scenario_.items;
    if (scenario_.push_bulk) {
      std::array<TrackedItem, 2> items{TrackedItem(first), TrackedItem(first + 1)};
      const auto count = static_cast<std::size_t>(scenario_.items);
      const BulkResult bulk = ring_.PushBulk(std::span(items).first(count), DeadlineOf(p));
      for (std::size_t i = 0; i < bulk.count; ++i)
        account.items |= 1U << (first + static_cast<int>(i));
      account.Settle();
    } else {
      for (int i = 0; i < scenario_.items && !account.left_early; ++i) {
        const QueueResult result = ring_.PushUntil(TrackedItem(first + i), DeadlineOf(p));
        if (result == QueueResult::kOk) account.items |= 1U << (first + i);
        account.left_early = result != QueueResult::kOk;
        account.Settle();
      }
    }
    if (scenario_.ending == Ending::kAfterProducers &&
        producers_left_.fetch_add(~std::uint64_t{0}, std::memory_order_acq_rel) == 1) {
      ring_.Close();
    }
  }

  void Consume(int c) {
    Account& account = popped_[static_cast<std::size_t>(c)];
    ModelStopToken token;
    if (scenario_.stop && c == 0) token = ModelStopToken(stop_);
    for (;;) {
      const QueueResult result =
          scenario_.pop_bulk ? PopSome(account, c, token) : PopOne(account, c, token);
      if (result == QueueResult::kClosed && c == 0 && scenario_.ending == Ending::kAnyTime) {
        before_end_.Touch();
      }
      account.left_early = result == QueueResult::kTimeout || result == QueueResult::kStopped;
      account.Settle();
      if (result != QueueResult::kOk || scenario_.ending == Ending::kNone) return;
    }
  }

  QueueResult PopOne(Account& account, int c, const ModelStopToken& token) {
    TrackedItem item;
    const QueueResult result = ring_.PopUntil(item, DeadlineOf(c), token);
    if (result == QueueResult::kOk) Take(account, item.value());
    return result;
  }

  QueueResult PopSome(Account& account, int c, const ModelStopToken& token) {
    std::array<TrackedItem, 2> items;
    const std::size_t most = scenario_.ending == Ending::kNone ? 1 : 2;
    const BulkResult bulk = ring_.PopBulk(std::span(items).first(most), 1, DeadlineOf(c), token);
    for (std::size_t i = 0; i < bulk.count; ++i) Take(account, items[i].value());
    return bulk.result;
  }

  void Take(Account& account, int value) {
    auto& explorer = Explorer::Get();
    const int all = Total() + (scenario_.full ? static_cast<int>(scenario_.capacity) : 0);
    explorer.Require(value >= 0 && value < all, "an item that nobody pushed");
    const std::uint32_t bit = 1U << value;
    explorer.Require((account.items & bit) == 0, "one consumer got an item twice");
    // Items of one producer ascend: no later one may be there already.
    const int end = value < Total() ? (value / scenario_.items + 1) * scenario_.items : all;
    const std::uint32_t later = ((1U << end) - 1) & ~(bit | (bit - 1));
    explorer.Require((account.items & later) == 0, "items of one producer out of order");
    account.items |= bit;
  }

  void End() {
    before_end_.Touch();
    scenario_.ending == Ending::kCancel ? ring_.Cancel() : ring_.Close();
  }

  void Check() {
    auto& explorer = Explorer::Get();
    std::uint32_t pushed = 0;
    for (const Account& account : pushed_) pushed |= account.items;
    std::uint32_t popped = 0;
    bool left_early = false;
    for (const Account& account : popped_) {
      explorer.Require((popped & account.items) == 0, "two consumers got the same item");
      popped |= account.items;
      left_early = left_early || account.left_early;
    }
    explorer.Require((popped & ~pushed) == 0, "an item that was refused came out");
    const bool drained =
        scenario_.ending == Ending::kAnyTime || scenario_.ending == Ending::kAfterProducers;
    if (drained && scenario_.consumers > (left_early ? 1 : 0)) {
      explorer.Require(popped == pushed, "an accepted item was lost");
    }
  }

  const MpmcScenario scenario_;
  typename Rings::template Mpmc<TrackedItem, Policy> ring_;
  ModelAtomic<std::uint64_t> producers_left_;
  ModelStopSource stop_;
  TrackedVariable before_end_;
  std::array<Account, kMaxThreads> pushed_{};
  std::array<Account, kMaxThreads> popped_{};
};

template <typename Policy, typename Rings = ShippedRings>
ExploreResult ExploreMpmc(const MpmcScenario& scenario, ExploreOptions options = {}) {
  // A bulk push that waits remembers how much of it went in.
  options.forget = !(scenario.push_bulk && scenario.items > 1);
  return Explorer::Explore(
      [&] {
        MpmcRun<Policy, Rings> run(scenario);
        run();
      },
      options);
}

struct SequencedScenario {
  int producers = 1;
  int consumers = 1;
  int items = 2;  // in all; producer p puts the numbers p, p + producers, ...
  int end = 2;    // where a thread of its own ends the stream; negative: nobody does
  std::size_t capacity = 2;
  bool wait_for_room = false;
  bool pop_bulk = false;
  bool one_each = false;   // each consumer takes one item and leaves
  bool deadlines = false;  // consumer 0 may run out of time
};

template <typename Policy, typename Rings>
class SequencedRun {
 public:
  explicit SequencedRun(const SequencedScenario& scenario)
      : scenario_(scenario), ring_(scenario.capacity), first_(scenario.capacity) {
    TrackedItem item;
    for (std::size_t i = 0; i < scenario.capacity; ++i) {
      (void)ring_.TryPut(i, TrackedItem(0));
      (void)ring_.TryPop(item);
    }
  }

  void operator()() {
    auto& explorer = Explorer::Get();
    for (int p = 0; p < scenario_.producers; ++p) explorer.Spawn([this, p] { Produce(p); });
    for (int c = 0; c < scenario_.consumers; ++c) explorer.Spawn([this, c] { Consume(c); });
    if (scenario_.end >= 0) {
      explorer.Spawn([this] {
        before_end_.Touch();
        ring_.Close(first_ + static_cast<std::uint64_t>(scenario_.end));
      });
    }
    if (explorer.Run()) Check();
  }

 private:
  bool IsBeyondEnd(int k) const { return scenario_.end >= 0 && k >= scenario_.end; }

  void Produce(int p) {
    auto& explorer = Explorer::Get();
    for (int k = p; k < scenario_.items; k += scenario_.producers) {
      const std::uint64_t number = first_ + static_cast<std::uint64_t>(k);
      if (scenario_.wait_for_room) {
        const QueueResult room = ring_.WaitForRoom(number);
        explorer.Require(room == QueueResult::kOk || IsBeyondEnd(k), "no room before the end");
      }
      const QueueResult result = ring_.Put(number, TrackedItem(k));
      explorer.Require(result == QueueResult::kOk || IsBeyondEnd(k), "refused before the end");
      explorer.Settle(static_cast<std::uint64_t>(k) + 1);
    }
  }

  void Consume(int c) {
    auto& explorer = Explorer::Get();
    std::array<TrackedItem, 2> items;
    Account& account = popped_[static_cast<std::size_t>(c)];
    const Deadline deadline =
        scenario_.deadlines && c == 0 ? Deadline{} + std::chrono::nanoseconds(1) : kNoDeadline;
    for (;;) {
      BulkResult bulk;
      if (scenario_.pop_bulk) {
        bulk = ring_.PopBulk(std::span(items).first(scenario_.one_each ? 1 : 2), 1, deadline);
      } else {
        bulk.result = ring_.PopUntil(items[0], deadline);
        bulk.count = bulk.result == QueueResult::kOk ? 1 : 0;
      }
      for (std::size_t i = 0; i < bulk.count; ++i) {
        const std::uint32_t bit = 1U << items[i].value();
        explorer.Require(account.items < bit, "a number came out of order");
        explorer.Require(scenario_.consumers > 1 || account.items + 1 == bit,
                         "a number was skipped");
        account.items |= bit;
      }
      if (bulk.result == QueueResult::kClosed && c == 0) before_end_.Touch();
      account.Settle();
      if (bulk.result != QueueResult::kOk || scenario_.one_each) return;
    }
  }

  void Check() {
    auto& explorer = Explorer::Get();
    std::uint32_t popped = 0;
    for (const Account& account : popped_) {
      explorer.Require((popped & account.items) == 0, "two consumers got the same number");
      popped |= account.items;
    }
    explorer.Require((popped & (popped + 1)) == 0, "a number was skipped");
    explorer.Require(scenario_.consumers == 0 || std::popcount(popped) >= scenario_.end,
                     "a number before the end was lost");
  }

  const SequencedScenario scenario_;
  typename Rings::template Sequenced<TrackedItem, Policy> ring_;
  const std::uint64_t first_;
  TrackedVariable before_end_;
  std::array<Account, kMaxThreads> popped_{};
};

template <typename Policy, typename Rings = ShippedRings>
ExploreResult ExploreSequenced(const SequencedScenario& scenario,
                               const ExploreOptions& options = {}) {
  return Explorer::Explore(
      [&] {
        SequencedRun<Policy, Rings> run(scenario);
        run();
      },
      options);
}

}  // namespace ringfeed::checker
