// Histories of small programs on the rings under every schedule within bounds, each checked for
// linearizability; and rings with something wrong in them, whose histories must be refused.
//
// The clock of a history is one word of the explored memory, changed by read-modify-writes that
// acquire and release: what came before in time may not be overlooked.

#include <gtest/gtest.h>

#include <deque>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/queue/mpmc_ring.h"
#include "tests/queue/history_checker.h"
#include "tests/queue/mutations.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::checker {
namespace {

using history::OperationKind;
using history::QueueHistory;

enum class Call : std::uint8_t { kTryPush, kPush, kTryPushBulk, kTryPop, kPop, kClose, kCancel };
using enum Call;

struct Program {
  const char* name;
  std::vector<std::vector<Call>> threads;
  std::size_t capacity = 2;
  std::size_t items_before = 0;  // in the ring when the threads start
};

// An item is a number; what it stands for lies in memory, as behind a pointer, so that an item that
// comes without its memory shows in the history.
template <typename Ring>
class ProgramRun {
 public:
  ProgramRun(const Program& program, std::string& why)
      : program_(program), why_(why), ring_(program.capacity) {
    int items = static_cast<int>(program.items_before);
    for (const auto& thread : program.threads) items += static_cast<int>(thread.size());
    for (int i = 0; i < items; ++i) contents_.emplace_back(std::uint64_t{0});
    for (std::size_t i = 0; i < program.items_before; ++i) DoCall(kTryPush, history_);
  }

  void operator()() {
    auto& explorer = Explorer::Get();
    logs_.resize(program_.threads.size());
    for (std::size_t t = 0; t < program_.threads.size(); ++t) {
      explorer.Spawn([this, t] {
        for (const Call call : program_.threads[t]) DoCall(call, logs_[t]);
      });
    }
    if (!explorer.Run()) return;
    for (const QueueHistory& log : logs_) {
      history_.insert(history_.end(), log.begin(), log.end());
    }
    const history::HistoryVerdict verdict = CheckQueueHistory(history_, program_.capacity);
    if (!verdict.ok()) why_ = verdict.why;
    explorer.Require(verdict.ok(), "not linearizable");
  }

 private:
  static OperationKind KindOf(Call call) {
    if (call == kClose) return OperationKind::kClose;
    if (call == kCancel) return OperationKind::kCancel;
    return call == kTryPop || call == kPop ? OperationKind::kPop : OperationKind::kPush;
  }

  void DoCall(Call call, QueueHistory& log) {
    history::Operation operation;
    operation.kind = KindOf(call);
    const int item = operation.kind == OperationKind::kPush ? next_item_++ : 0;
    operation.invoked = Stamp(log);
    operation.result = Answer(call, item, operation.value);
    operation.answered = Stamp(log);
    log.push_back(operation);
  }

  QueueResult Answer(Call call, int item, std::uint64_t& value) {
    if (KindOf(call) == OperationKind::kPush) {
      value = static_cast<std::uint64_t>(item) + 1;
      contents_[static_cast<std::size_t>(item)].store(value, std::memory_order_relaxed);
      if (call == kPush) return ring_.Push(std::move(item));
      return call == kTryPush ? ring_.TryPush(std::move(item))
                              : ring_.TryPushBulk(std::span(&item, 1)).result;
    }
    if (KindOf(call) != OperationKind::kPop) {
      call == kClose ? ring_.Close() : ring_.Cancel();
      return QueueResult::kOk;
    }
    const QueueResult result = call == kPop ? ring_.Pop(item) : ring_.TryPop(item);
    if (result == QueueResult::kOk) {
      value = contents_[static_cast<std::size_t>(item)].load(std::memory_order_relaxed);
    }
    return result;
  }

  // The thread remembers its log, so that two schedules with different histories differ.
  history::Stamp Stamp(const QueueHistory& log) {
    const auto stamp = static_cast<history::Stamp>(clock_.fetch_add(2, std::memory_order_acq_rel));
    if (&log == &history_) return stamp;
    std::uint64_t summary = static_cast<std::uint64_t>(stamp);
    for (const history::Operation& operation : log) {
      for (const std::uint64_t part :
           {static_cast<std::uint64_t>(operation.result), operation.value,
            static_cast<std::uint64_t>(operation.invoked),
            static_cast<std::uint64_t>(operation.answered)}) {
        summary = (summary ^ part) * 0x9e3779b97f4a7c15ULL;
        summary ^= summary >> 31;
      }
    }
    Explorer::Get().Settle(summary);
    return stamp;
  }

  const Program& program_;
  std::string& why_;
  Ring ring_;
  ModelAtomic<std::uint64_t> clock_{0};
  std::deque<ModelAtomic<std::uint64_t>> contents_;
  int next_item_ = 0;
  std::vector<QueueHistory> logs_;
  QueueHistory history_;
};

struct Outcome {
  ExploreResult explored;
  std::string why;  // what the checker said of the history
};

template <typename Ring>
Outcome ExploreHistories(const Program& program, const ExploreOptions& options) {
  Outcome outcome;
  outcome.explored = Explorer::Explore(
      [&] {
        ProgramRun<Ring> run(program, outcome.why);
        run();
      },
      options);
  return outcome;
}

const Program kFillAndDrain{"fill and drain", {{kTryPush}, {kTryPush}, {kTryPop, kTryPop}}};
const Program kPointer{"one item", {{kTryPush}, {kTryPop}}, 1};
const Program kPointerInBulk{"one item in bulk", {{kTryPushBulk}, {kTryPop}}, 1};
const Program kFromFull{"from full", {{kTryPop}, {kTryPop, kTryPush}, {kTryPush}}, 2, 2};
// One pop stands in the middle; around it the ring fills and drains, and is full at no moment.
const Program kAlmostFull{
    "almost full", {{kTryPop}, {kTryPop, kTryPush, kTryPop, kTryPush}, {kTryPush}}, 2, 2};
const Program kBlocking{"blocking", {{kPush, kPush}, {kPush}, {kPop, kPop, kPop}}, 1};
const Program kClosed{"closed", {{kTryPush, kTryPush}, {kTryPop, kTryPop}, {kClose}}, 1};
const Program kCancelled{"cancelled", {{kTryPush, kTryPush}, {kTryPop, kTryPop}, {kCancel}}, 1};

void ExpectLinearizable(const Program& program, ExploreOptions options) {
  options.max_states = kSanitized ? 20'000 : 0;
  const Outcome outcome = ExploreHistories<MpmcRing<int, ModelPolicy<>>>(program, options);
  EXPECT_EQ(outcome.explored.failure, "") << program.name << ": " << outcome.why << "\n"
                                          << outcome.explored.trace;
  EXPECT_TRUE(outcome.explored.exhausted || kSanitized);
  std::cout << "  " << program.name << ": " << outcome.explored.states << " states, "
            << outcome.explored.executions << " executions\n";
}

// The checker, not the explorer, finds something.
template <typename Ring>
void ExpectRefused(const Program& program, const ExploreOptions& options) {
  const Outcome outcome = ExploreHistories<Ring>(program, options);
  EXPECT_EQ(outcome.explored.failure, "not linearizable") << program.name;
  std::cout << "  " << program.name << ": " << outcome.why << "\n";
}

class RingHistories : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

constexpr ExploreOptions kNarrow{.preemptions = 2, .stale_reads = 0};
constexpr ExploreOptions kStale{.preemptions = 1, .stale_reads = 1};

TEST_F(RingHistories, TryFormsAreLinearizable) {
  for (const Program& program : {kFillAndDrain, kPointer, kPointerInBulk, kFromFull}) {
    ExpectLinearizable(program, kNarrow);
    ExpectLinearizable(program, kStale);
  }
  ExpectLinearizable(kAlmostFull, kNarrow);
}

TEST_F(RingHistories, BlockingFormsAreLinearizable) {
  ExpectLinearizable(kBlocking, {.preemptions = 1, .stale_reads = 0});
}

TEST_F(RingHistories, EndsAreLinearizable) {
  ExpectLinearizable(kClosed, kNarrow);
  ExpectLinearizable(kCancelled, kNarrow);
}

TEST_F(RingHistories, AnItemWithoutItsMemoryIsFound) {
  ExpectRefused<MpmcRing<int, EntryChangeRelaxed>>(kPointer, kStale);
  ExpectRefused<MpmcRing<int, EntryChangeRelaxed>>(kPointerInBulk, kStale);
}

TEST_F(RingHistories, AClaimThatIsNotOneStepIsFound) {
  ExpectRefused<MpmcRing<int, TornClaims>>(kFillAndDrain, kNarrow);
}

// Says that it is empty after every second pop that took something.
template <typename Ring>
class PassesOver : public Ring {
 public:
  using Ring::Ring;
  template <typename Out>
  QueueResult TryPop(Out& out) noexcept {
    const QueueResult result = Ring::TryPop(out);
    if (result != QueueResult::kOk || ++taken_ != 2) return result;
    (void)Ring::TryPush(Out{out});
    return QueueResult::kEmpty;
  }

 private:
  int taken_ = 0;
};

TEST_F(RingHistories, AnItemThatIsPassedOverIsFound) {
  ExpectRefused<PassesOver<MpmcRing<int, ModelPolicy<>>>>(kFillAndDrain, kNarrow);
}

}  // namespace
}  // namespace ringfeed::checker
