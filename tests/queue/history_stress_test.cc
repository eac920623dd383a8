// Histories of the queues under real threads, each checked for linearizability: try, blocking,
// timed and bulk calls side by side, ended after the producers, in the middle, or by a cancel.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/queue/history_subjects.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::history {
namespace {

enum class StressEnd : std::uint8_t { kAfterProducers, kClose, kCancel };

struct StressShape {
  int producers = 2;
  int consumers = 2;
  std::size_t capacity = 2;
  int items = 3'000;  // of all producers
  StressEnd end = StressEnd::kAfterProducers;
};

template <typename Subject>
class StressRun {
 public:
  explicit StressRun(const StressShape& shape) : shape_(shape), subject_(shape.capacity) {}

  QueueHistory Run() {
    const int threads = shape_.producers + shape_.consumers;
    const auto expected = static_cast<std::size_t>(2 * shape_.items + 100);
    for (int i = 0; i <= threads; ++i) logs_.emplace_back(expected);
    producers_left_ = shape_.producers;
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([this, i] { i < shape_.producers ? Produce(i) : Consume(i); });
    }
    started_ = true;
    if (shape_.end != StressEnd::kAfterProducers) EndInTheMiddle();
    for (std::thread& thread : running) thread.join();
    QueueHistory history;
    for (const HistoryLog& log : logs_) log.AppendTo(history);
    return history;
  }

  const Subject& subject() const { return subject_; }

 private:
  HistoryLog& Log(int thread) { return logs_[static_cast<std::size_t>(thread)]; }

  void Produce(int thread) {
    while (!started_) std::this_thread::yield();
    std::mt19937 random(static_cast<unsigned>(thread) + 1);
    const auto base = static_cast<std::uint64_t>(thread) << 32;
    const int items = shape_.items / shape_.producers;
    for (int i = 0; i < items && !PushSome(thread, base + static_cast<unsigned>(i), random);) {
      i += last_count_of_push;
      pushed_.fetch_add(1, std::memory_order_relaxed);
    }
    if (producers_left_.fetch_sub(1) == 1 && shape_.end == StressEnd::kAfterProducers) {
      RecordEnd(OperationKind::kClose);
    }
  }

  // True: closed. A form that may fail is followed by one that waits, so the history stays short.
  bool PushSome(int thread, std::uint64_t value, std::mt19937& random) {
    HistoryLog& log = Log(thread);
    last_count_of_push = 1;
    QueueResult result = QueueResult::kFull;
    const unsigned form = random() % 4;
    if constexpr (Subject::kHasTryForms) {
      if (form == 0) {
        result = log.Record(OperationKind::kPush, value,
                            [&](std::uint64_t& v) { return subject_.TryPush(v); });
      }
    }
    if (form == 1) {
      const Deadline soon = DeadlineAfter(std::chrono::microseconds(random() % 20));
      result = log.Record(OperationKind::kPush, value,
                          [&](std::uint64_t& v) { return subject_.PushUntil(v, soon); });
    }
    if constexpr (Subject::kHasBulkForms) {
      if (form == 2) return PushBulk(log, value, 1 + random() % 4, random() % 2 == 0);
    }
    if (result != QueueResult::kOk && result != QueueResult::kClosed) {
      result = log.Record(OperationKind::kPush, value,
                          [&](std::uint64_t& v) { return subject_.PushUntil(v, kNoDeadline); });
    }
    return result == QueueResult::kClosed;
  }

  bool PushBulk(HistoryLog& log, std::uint64_t first, std::size_t count, bool wait) {
    std::vector<std::uint64_t> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(first + i);
    const BulkResult bulk =
        log.RecordBulk(OperationKind::kPush, values, [&](std::vector<std::uint64_t>& v) {
          return wait ? subject_.PushBulk(v, kNoDeadline) : subject_.TryPushBulk(v);
        });
    last_count_of_push = static_cast<int>(bulk.count);
    if (bulk.result != QueueResult::kOk && bulk.count == 0) std::this_thread::yield();
    return bulk.result == QueueResult::kClosed;
  }

  void Consume(int thread) {
    while (!started_) std::this_thread::yield();
    std::mt19937 random(static_cast<unsigned>(thread) + 1);
    HistoryLog& log = Log(thread);
    QueueResult result = QueueResult::kOk;
    while (result != QueueResult::kClosed && result != QueueResult::kFailed) {
      result = PopSome(log, result == QueueResult::kOk ? random() % 4 : 3, random);
    }
  }

  QueueResult PopSome(HistoryLog& log, unsigned form, std::mt19937& random) {
    std::uint64_t value = 0;
    if constexpr (Subject::kHasTryForms) {
      if (form == 0) {
        return log.Record(OperationKind::kPop, value,
                          [&](std::uint64_t& v) { return subject_.TryPop(v); });
      }
    }
    if constexpr (Subject::kHasBulkForms) {
      if (form == 2) {
        std::vector<std::uint64_t> values(1 + random() % 4);
        return log
            .RecordBulk(OperationKind::kPop, values,
                        [&](std::vector<std::uint64_t>& v) { return subject_.TryPopBulk(v); })
            .result;
      }
    }
    const Deadline deadline =
        form == 1 ? DeadlineAfter(std::chrono::microseconds(random() % 20)) : kNoDeadline;
    return log.Record(OperationKind::kPop, value,
                      [&](std::uint64_t& v) { return subject_.PopUntil(v, deadline); });
  }

  void EndInTheMiddle() {
    while (pushed_.load(std::memory_order_relaxed) < shape_.items / 3) std::this_thread::yield();
    RecordEnd(shape_.end == StressEnd::kClose ? OperationKind::kClose : OperationKind::kCancel);
  }

  void RecordEnd(OperationKind kind) {
    std::uint64_t none = 0;
    logs_.back().Record(kind, none, [&](std::uint64_t&) {
      kind == OperationKind::kClose ? subject_.Close() : subject_.Cancel();
      return QueueResult::kOk;
    });
  }

  const StressShape shape_;
  Subject subject_;
  std::vector<HistoryLog> logs_;  // per thread, and one for whoever ends it
  std::atomic<bool> started_{false};
  std::atomic<int> producers_left_{0};
  std::atomic<int> pushed_{0};
  static inline thread_local int last_count_of_push = 0;
};

template <typename Subject>
class QueueHistoryStress : public ::testing::Test {
 protected:
  // Now and then threads that were stopped for long leave more orders than the search will try:
  // then another run decides.
  static void ExpectLinearizable(StressShape shape) {
    shape.items = StressRounds(shape.items);
    HistoryVerdict verdict{HistoryVerdict::Kind::kUndecided, "", 0};
    for (int run = 0; run < 3 && verdict.kind == HistoryVerdict::Kind::kUndecided; ++run) {
      verdict = RunOnce(shape);
    }
    EXPECT_TRUE(verdict.ok()) << verdict.why;
  }

 private:
  static HistoryVerdict RunOnce(const StressShape& shape) {
    StressRun<Subject> run(shape);
    const QueueHistory history = run.Run();
    const HistoryVerdict verdict = CheckQueueHistory(history, run.subject().capacity(), 3'000'000);
    std::cout << "  " << shape.producers << " to " << shape.consumers << " through "
              << shape.capacity << ": " << history.size() << " calls, " << verdict.steps
              << " steps\n";
    const HistoryVerdict endings =
        Subject::kFailsWhenCancelled ? CheckEndings(history) : HistoryVerdict();
    return endings.ok() ? verdict : endings;
  }
};

// One line adds a queue.
using Subjects = ::testing::Types<RingSubject, ChannelSubject, BlockingQueueSubject>;
TYPED_TEST_SUITE(QueueHistoryStress, Subjects);

TYPED_TEST(QueueHistoryStress, IsLinearizableForAnyNumberOfThreads) {
  for (const int producers : {1, 2, 4}) {
    for (const int consumers : {1, 3}) {
      for (const std::size_t capacity : {1U, 2U, 5U, 64U}) {
        this->ExpectLinearizable({producers, consumers, capacity});
      }
    }
  }
}

TYPED_TEST(QueueHistoryStress, IsLinearizableInALongRun) {
  this->ExpectLinearizable({.producers = 3, .consumers = 3, .capacity = 16, .items = 30'000});
}

TYPED_TEST(QueueHistoryStress, IsLinearizableWhenClosedInTheMiddle) {
  for (int round = 0; round < StressRounds(50); ++round) {
    this->ExpectLinearizable({.capacity = 1 + static_cast<std::size_t>(round) % 5,
                              .items = 600,
                              .end = StressEnd::kClose});
  }
}

TYPED_TEST(QueueHistoryStress, IsLinearizableWhenCancelledInTheMiddle) {
  for (int round = 0; round < StressRounds(50); ++round) {
    this->ExpectLinearizable({.capacity = 1 + static_cast<std::size_t>(round) % 5,
                              .items = 600,
                              .end = StressEnd::kCancel});
  }
}

TEST(HistoryClock, NeverRunsBackFromOneThreadToAnother) {
  constexpr int kTurns = 5'000;
  std::atomic<Stamp> handed{0};
  std::atomic<int> backwards{0};
  std::atomic<int> turn{0};
  const auto play = [&](int self) {
    for (int i = self; i < kTurns; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) std::this_thread::yield();
      const Stamp now = HistoryClock::Now();
      if (now < handed.load(std::memory_order_relaxed)) ++backwards;
      handed.store(now, std::memory_order_relaxed);
      turn.store(i + 1, std::memory_order_release);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(backwards, 0) << "the processors' counters differ: no stress history can be trusted";
}

}  // namespace
}  // namespace ringfeed::history
