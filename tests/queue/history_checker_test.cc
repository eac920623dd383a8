#include "tests/queue/history_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <string>

#include "tests/queue/history_reference.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::history {
namespace {

using Kind = OperationKind;
using enum QueueResult;

Operation Push(std::uint64_t value, Stamp invoked, Stamp answered, QueueResult result = kOk) {
  return {Kind::kPush, result, 0, value, invoked, answered};
}
Operation Pop(std::uint64_t value, Stamp invoked, Stamp answered) {
  return {Kind::kPop, kOk, 0, value, invoked, answered};
}
Operation PopSays(QueueResult result, Stamp invoked, Stamp answered) {
  return {Kind::kPop, result, 0, 0, invoked, answered};
}
Operation End(Kind kind, Stamp invoked, Stamp answered) {
  return {kind, kOk, 0, 0, invoked, answered};
}

void ExpectPasses(const QueueHistory& history, std::size_t capacity) {
  const HistoryVerdict verdict = CheckQueueHistory(history, capacity);
  EXPECT_TRUE(verdict.ok()) << verdict.why;
  EXPECT_TRUE(SomeOrderExplains(history, capacity));
}

void ExpectFound(const QueueHistory& history, std::size_t capacity, const char* why) {
  const HistoryVerdict verdict = CheckQueueHistory(history, capacity);
  EXPECT_EQ(verdict.kind, HistoryVerdict::Kind::kViolation);
  EXPECT_NE(verdict.why.find(why), std::string::npos) << verdict.why;
  EXPECT_FALSE(SomeOrderExplains(history, capacity));
}

constexpr std::size_t kOnePlace = 1;
constexpr std::size_t kTwoPlaces = 2;

TEST(HistoryChecker, TakesWhatOneThreadDoes) {
  ExpectPasses({Push(1, 0, 1), Push(2, 2, 3), Push(3, 4, 5, kFull), Pop(1, 6, 7), Pop(2, 8, 9),
                PopSays(kEmpty, 10, 11), End(Kind::kClose, 12, 13), Push(4, 14, 15, kClosed),
                PopSays(kClosed, 16, 17)},
               kTwoPlaces);
}

TEST(HistoryChecker, FindsAnItemThatNobodyPushed) {
  ExpectFound({Push(1, 0, 1), Pop(2, 2, 3)}, kTwoPlaces, "never pushed");
}

TEST(HistoryChecker, FindsAnItemThatCameOutTwice) {
  ExpectFound({Push(1, 0, 1), Pop(1, 2, 3), Pop(1, 2, 3)}, kTwoPlaces, "popped twice");
}

TEST(HistoryChecker, FindsAnItemThatCameOutBeforeItWentIn) {
  ExpectFound({Pop(1, 0, 1), Push(1, 2, 3)}, kTwoPlaces, "before it was pushed");
  ExpectPasses({Pop(1, 0, 2), Push(1, 2, 3)}, kTwoPlaces);
}

TEST(HistoryChecker, FindsItemsOutOfOrder) {
  ExpectFound({Push(1, 0, 1), Push(2, 2, 3), Pop(2, 4, 5), Pop(1, 6, 7)}, kTwoPlaces, "no order");
  ExpectPasses({Push(1, 0, 2), Push(2, 2, 3), Pop(2, 4, 5), Pop(1, 6, 7)}, kTwoPlaces);
}

TEST(HistoryChecker, FindsAnItemThatWasPassedOver) {
  ExpectFound({Push(1, 0, 1), Push(2, 2, 3), Pop(2, 4, 5)}, kTwoPlaces, "no order");
}

TEST(HistoryChecker, FindsMoreItemsThanThereIsRoomFor) {
  ExpectFound({Push(1, 0, 1), Push(2, 2, 3), Push(3, 4, 5), Pop(1, 6, 7)}, kTwoPlaces, "no order");
  ExpectPasses({Push(1, 0, 1), Push(2, 2, 3), Push(3, 4, 6), Pop(1, 6, 7)}, kTwoPlaces);
}

TEST(HistoryChecker, FindsAnEmptyThatNeverWas) {
  // Neither of the two items is there all the time.
  ExpectFound({Push(1, 0, 1), Push(2, 4, 5), PopSays(kEmpty, 2, 9), Pop(1, 6, 7), Pop(2, 10, 11)},
              kTwoPlaces, "no order");
  ExpectPasses({Push(1, 0, 1), Push(2, 4, 6), PopSays(kEmpty, 2, 9), Pop(1, 6, 7), Pop(2, 10, 11)},
               kTwoPlaces);
}

TEST(HistoryChecker, FindsAFullThatNeverWas) {
  ExpectFound({Push(1, 0, 1), Push(3, 2, 3, kFull), Push(2, 4, 5), Pop(1, 6, 7)}, kTwoPlaces,
              "no order");
  ExpectPasses({Push(1, 0, 1), Push(2, 2, 3), Push(3, 4, 5, kFull), Pop(1, 6, 7)}, kTwoPlaces);
}

TEST(HistoryChecker, TriesAnEmptyBeforeAndAfterAFull) {
  ExpectPasses({Push(1, 0, 5), Pop(1, 30, 100), PopSays(kEmpty, 0, 200), Push(2, 10, 20, kFull)},
               kOnePlace);
}

TEST(HistoryChecker, KnowsWhoMayHoldAPlace) {
  ExpectPasses({Push(1, 0, 1), Pop(1, 2, 4), Push(2, 4, 5, kFull)}, kTwoPlaces);
  ExpectPasses({Push(1, 0, 4), Push(2, 4, 5, kFull)}, kTwoPlaces);
  ExpectPasses({Push(1, 0, 4, kClosed), Push(2, 1, 2, kFull), End(Kind::kClose, 3, 5)}, kTwoPlaces);
  ExpectFound({PopSays(kEmpty, 0, 4), Push(2, 1, 2, kFull)}, kTwoPlaces, "no order");
  ExpectFound({Push(1, 0, 4, kFull), Push(2, 1, 2, kFull)}, kTwoPlaces, "no order");
}

TEST(HistoryChecker, FindsATimeoutThatNothingExcuses) {
  ExpectFound({Push(1, 0, 1), PopSays(kTimeout, 2, 3), Pop(1, 4, 5)}, kOnePlace, "no order");
  ExpectFound({Push(1, 0, 1, kTimeout), Push(2, 2, 3)}, kOnePlace, "no order");
  ExpectPasses({PopSays(kTimeout, 0, 1), Push(1, 2, 3), Push(2, 4, 5, kStopped)}, kOnePlace);
}

TEST(HistoryChecker, FindsAPushThatWasAcceptedAfterTheClose) {
  ExpectFound({End(Kind::kClose, 0, 1), Push(1, 2, 3)}, kOnePlace, "after the close");
  ExpectFound({End(Kind::kClose, 0, 9), Push(1, 1, 2, kClosed), Push(2, 3, 4)}, kOnePlace,
              "after the close");
}

TEST(HistoryChecker, FindsAnAcceptedItemThatTheCloseLost) {
  ExpectFound({Push(1, 0, 1), End(Kind::kClose, 2, 3), PopSays(kClosed, 4, 5)}, kOnePlace, "lost");
  ExpectFound({Push(1, 0, 1), End(Kind::kClose, 2, 3), PopSays(kClosed, 4, 5), Pop(1, 6, 7)},
              kOnePlace, "popped after the end");
}

TEST(HistoryChecker, FindsAnEndThatNobodyMade) {
  ExpectFound({Push(1, 0, 1, kClosed), End(Kind::kClose, 2, 3)}, kOnePlace, "before anyone closed");
  ExpectFound({PopSays(kClosed, 0, 1)}, kOnePlace, "before anyone closed");
}

TEST(HistoryChecker, FindsAnswersOfAnOpenQueueAfterItsEnd) {
  ExpectFound({End(Kind::kClose, 0, 1), PopSays(kEmpty, 2, 3)}, kOnePlace, "after the end");
  ExpectFound({Push(1, 0, 1), End(Kind::kClose, 2, 3), Push(2, 4, 5, kFull)}, kOnePlace,
              "after the end");
}

TEST(HistoryChecker, FindsAPopAfterTheCancel) {
  ExpectFound({Push(1, 0, 1), End(Kind::kCancel, 2, 3), Pop(1, 4, 5)}, kOnePlace,
              "after the end of the pops");
  ExpectPasses({Push(1, 0, 1), End(Kind::kCancel, 2, 3), PopSays(kClosed, 4, 5)}, kOnePlace);
}

TEST(HistoryChecker, KnowsThatCancelEndsPopsBeforePushes) {
  ExpectPasses({End(Kind::kCancel, 0, 9), PopSays(kClosed, 1, 2), Push(1, 3, 4)}, kOnePlace);
  ExpectFound({End(Kind::kCancel, 0, 9), Push(1, 1, 2), Push(2, 3, 4, kClosed), Pop(1, 5, 6)},
              kOnePlace, "after the end of the pops");
}

TEST(HistoryChecker, HoldsBulkCallsToTheirOrder) {
  QueueHistory history = {Push(1, 0, 1), Push(2, 0, 1), Pop(2, 2, 3), Pop(1, 4, 5)};
  EXPECT_TRUE(CheckQueueHistory(history, kTwoPlaces).ok());
  history[1].rank = 1;
  EXPECT_FALSE(CheckQueueHistory(history, kTwoPlaces).ok());
  history = {Push(1, 0, 1), Push(2, 2, 3), Pop(2, 4, 5), Pop(1, 4, 5)};
  EXPECT_TRUE(CheckQueueHistory(history, kTwoPlaces).ok());
  history[3].rank = 1;
  EXPECT_FALSE(CheckQueueHistory(history, kTwoPlaces).ok());
}

TEST(HistoryChecker, HoldsAChannelToTheEndThatItWasGiven) {
  EXPECT_TRUE(CheckEndings({End(Kind::kClose, 0, 1), PopSays(kClosed, 2, 3),
                            End(Kind::kCancel, 4, 6), PopSays(kFailed, 5, 7)})
                  .ok());
  EXPECT_FALSE(CheckEndings({End(Kind::kClose, 0, 1), PopSays(kFailed, 2, 3)}).ok());
  EXPECT_FALSE(CheckEndings({End(Kind::kCancel, 0, 1), PopSays(kClosed, 2, 3)}).ok());
  EXPECT_FALSE(CheckEndings({End(Kind::kCloseFailed, 0, 1), PopSays(kClosed, 2, 3)}).ok());
  EXPECT_FALSE(CheckEndings({End(Kind::kClose, 0, 9), End(Kind::kCancel, 0, 9),
                             PopSays(kFailed, 1, 2), PopSays(kClosed, 3, 4)})
                   .ok());
}

// Short histories: a run of one thread, its moments stretched to spans that overlap, and in most of
// them one thing changed, which may or may not make it impossible.
class RandomHistories {
 public:
  explicit RandomHistories(std::uint64_t seed) : random_(seed) {}

  QueueHistory Make(std::size_t capacity) {
    QueueHistory history;
    std::deque<std::uint64_t> items;
    bool closed = false;
    bool cancelled = false;
    const int calls = 4 + Draw(5);
    for (int i = 0; i < calls; ++i) {
      Operation call;
      const int what = Draw(20);
      if (what == 0 || what == 1) {
        call.kind = what == 0 ? Kind::kClose : Kind::kCancel;
        closed = true;
        cancelled = cancelled || what == 1;
      } else if (what < 11) {
        call = DoPush(static_cast<std::uint64_t>(i) + 1, capacity, items, closed);
      } else {
        call = DoPop(items, closed, cancelled);
      }
      call.invoked = 10 * i - Draw(spread_);
      call.answered = 10 * i + Draw(spread_);
      history.push_back(call);
    }
    spread_ = 2 + Draw(14);
    if (Draw(8) != 0) Change(history);
    return history;
  }

 private:
  int Draw(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

  Operation DoPush(std::uint64_t value, std::size_t capacity, std::deque<std::uint64_t>& items,
                   bool closed) {
    constexpr QueueResult kRefusals[] = {kFull, kFull, kStopped, kTimeout};
    if (closed) return Push(value, 0, 0, kClosed);
    if (items.size() == capacity) return Push(value, 0, 0, kRefusals[Draw(4)]);
    items.push_back(value);
    return Push(value, 0, 0);
  }

  Operation DoPop(std::deque<std::uint64_t>& items, bool closed, bool cancelled) {
    constexpr QueueResult kRefusals[] = {kEmpty, kEmpty, kTimeout, kStopped};
    if (cancelled || (closed && items.empty())) return PopSays(kClosed, 0, 0);
    if (items.empty()) return PopSays(kRefusals[Draw(4)], 0, 0);
    const std::uint64_t value = items.front();
    items.pop_front();
    return Pop(value, 0, 0);
  }

  void Change(QueueHistory& history) {
    const auto at = static_cast<std::size_t>(Draw(static_cast<int>(history.size())));
    Operation& one = history[at];
    Operation& next = history[(at + 1) % history.size()];
    const int what = Draw(4);
    if (what == 0) {
      std::swap(one.invoked, next.invoked);
      std::swap(one.answered, next.answered);
    } else if (what == 1 && one.kind == next.kind && one.kind == Kind::kPop) {
      std::swap(one.value, next.value);
      std::swap(one.result, next.result);
    } else if (what == 2) {
      const Stamp by = Draw(60) - 30;
      one.invoked += by;
      one.answered += by;
    } else if (one.result != kOk) {
      constexpr QueueResult kOfPush[] = {kFull, kStopped, kTimeout, kClosed};
      constexpr QueueResult kOfPop[] = {kEmpty, kStopped, kTimeout, kClosed};
      one.result = one.kind == Kind::kPush ? kOfPush[Draw(4)] : kOfPop[Draw(4)];
    } else if (one.kind == Kind::kPop) {
      one.result = kEmpty;
    }
  }

  std::mt19937_64 random_;
  int spread_ = 8;
};

std::string Text(const QueueHistory& history) {
  std::string text;
  for (const Operation& operation : history) {
    constexpr const char* kNames[] = {"push", "pop", "close", "close failed", "cancel"};
    text += std::string(kNames[static_cast<std::size_t>(operation.kind)]) + " " +
            std::to_string(operation.value) + " " + std::string(QueueResultName(operation.result)) +
            " [" + std::to_string(operation.invoked) + ", " + std::to_string(operation.answered) +
            "]\n";
  }
  return text;
}

TEST(HistoryChecker, AgreesWithTheTrialOfEveryOrder) {
  RandomHistories histories(1);
  int good = 0;
  const int rounds = StressRounds(200'000);
  for (int round = 0; round < rounds; ++round) {
    const std::size_t capacity = 1 + static_cast<std::size_t>(round % 3);
    const QueueHistory history = histories.Make(capacity);
    const bool expected = SomeOrderExplains(history, capacity);
    const HistoryVerdict verdict = CheckQueueHistory(history, capacity);
    good += expected ? 1 : 0;
    ASSERT_NE(verdict.kind, HistoryVerdict::Kind::kUndecided);
    ASSERT_EQ(verdict.ok(), expected)
        << "capacity " << capacity << ", round " << round << ": " << verdict.why << "\n"
        << Text(history);
  }
  // Neither answer is rare.
  EXPECT_GT(good, rounds / 4);
  EXPECT_LT(good, rounds * 3 / 4);
}

}  // namespace
}  // namespace ringfeed::history
