#include "readers/chain/takers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

/// Takers of a run, without a session.
class TakersTest : public PipelineTest {
 protected:
  static constexpr std::size_t kBatches = 40;

  /// A chain of kBatches batches.
  void Start(std::size_t slots = 4) {
    const Reader chain =
        Batch(Parse(OpenFiles(MakeFiles(1, 2 * kBatches, 8, 8), Options()), RawParser()),
              {.size = 2, .slots = slots});
    plan_ = LowerChain(*ReaderAccess::NodeOf(chain));
    run_.start = book_.start();
    run_.run = std::make_shared<ringfeed::Run>(RunInput{plan_, arena_->arena(), *run_.start});
    run_.run->Start();
  }
  std::optional<ReadResult> Look(milliseconds most = milliseconds(60'000), bool is_known = false) {
    return takers_.Look(run_, DeadlineAfter(most), [is_known] { return is_known; });
  }
  std::optional<ReadResult> Take(Taken* taken, milliseconds most = milliseconds(60'000)) {
    return takers_.Take(run_, {.deadline = DeadlineAfter(most)}, taken);
  }
  /// The number of a batch that is let go at once.
  static std::uint64_t NumberOf(Taken taken) {
    const std::uint64_t number = taken.delivery.batch->span.number;
    taken.of.run->Lease(std::move(taken.delivery));
    return number;
  }
  StatusCode FailureCode() {
    const std::lock_guard lock(mutex_);
    return takers_.failure().code();
  }
  void TearDown() override {
    run_.run->Stop();
    PipelineTest::TearDown();
  }

  ExecutionPlan plan_;
  std::mutex mutex_;
  PositionBook book_{0};
  Ledger ledger_;
  ChainCounters counters_{plan_, ledger_};
  Takers takers_{plan_, &mutex_, &book_, &counters_};
  StartedRun run_;
};

TEST_F(TakersTest, WhatWasLookedAtIsTakenFirst) {
  Start();
  EXPECT_EQ(Look(), ReadResult::kRecord);
  EXPECT_EQ(Look(), ReadResult::kRecord);
  Taken taken;
  for (std::uint64_t number = 0; number < kBatches; ++number) {
    ASSERT_EQ(Take(&taken), ReadResult::kRecord);
    EXPECT_EQ(NumberOf(std::exchange(taken, {})), number);
  }
  EXPECT_EQ(Take(&taken), ReadResult::kEnd);
  EXPECT_EQ(Look(), ReadResult::kEnd);
}

TEST_F(TakersTest, SeveralTakeEachBatchOnceWhileOthersLook) {
  Start();
  std::mutex seen_mutex;
  std::multiset<std::uint64_t> seen;
  const auto take_all = [&] {
    Taken taken;
    while (Take(&taken) == ReadResult::kRecord) {
      const std::uint64_t number = NumberOf(std::exchange(taken, {}));
      const std::lock_guard lock(seen_mutex);
      seen.insert(number);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(take_all);
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([this] {
        while (Look() == ReadResult::kRecord) std::this_thread::yield();
      });
    }
  }
  EXPECT_EQ(seen.size(), kBatches);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), kBatches);
}

TEST_F(TakersTest, AThreadThatHoldsAllIsToldAndGoesOnAfterItLetsGo) {
  Start(2);
  Taken taken;
  std::vector<std::shared_ptr<const void>> held;
  while (held.size() < 40) {
    const auto result = Take(&taken);
    if (result == ReadResult::kFailed) break;
    ASSERT_EQ(result, ReadResult::kRecord);
    held.push_back(run_.run->Lease(std::move(taken.delivery)));
  }
  EXPECT_EQ(FailureCode(), StatusCode::kResourceExhausted);
  held.pop_back();
  ASSERT_EQ(Take(&taken), ReadResult::kRecord);
  EXPECT_EQ(NumberOf(std::move(taken)), held.size() + 1);
  EXPECT_EQ(FailureCode(), StatusCode::kOk);
}

TEST_F(TakersTest, ALookEndsIfTheAnswerIsKnownElsewhere) {
  Start();
  EXPECT_EQ(Look(milliseconds(60'000), true), ReadResult::kRecord);
  Taken taken;
  ASSERT_EQ(Take(&taken), ReadResult::kRecord);
  EXPECT_EQ(NumberOf(std::move(taken)), 0u);
}

TEST_F(TakersTest, TheFirstFailureStaysUnlessAnEarlierPlaceFails) {
  Start();
  {
    const std::lock_guard lock(mutex_);
    takers_.Fail(Status(StatusCode::kDamaged, "first"));
    takers_.Fail(Status(StatusCode::kIoError, "second"));
    takers_.Recover();
    EXPECT_EQ(takers_.failure().message(), "first");
    takers_.FailInstead(Status(StatusCode::kIoError, "earlier"));
    EXPECT_EQ(takers_.failure().message(), "earlier");
  }
  Taken taken;
  EXPECT_EQ(Take(&taken), ReadResult::kFailed);
  EXPECT_EQ(Look(), ReadResult::kRecord);
  {
    const std::lock_guard lock(mutex_);
    takers_.BeginAgain();
    EXPECT_TRUE(takers_.failure().ok());
  }
  ASSERT_EQ(Take(&taken), ReadResult::kRecord);
  EXPECT_EQ(NumberOf(std::move(taken)), 0u);
}

TEST_F(TakersTest, WhatIsOfARunThatIsOverIsNotTaken) {
  Start();
  EXPECT_EQ(Look(), ReadResult::kRecord);
  {
    const std::lock_guard lock(mutex_);
    takers_.ForgetSeen();
    book_.ForgetRead();
  }
  Taken taken;
  EXPECT_EQ(Take(&taken), std::nullopt);
  EXPECT_EQ(Look(), std::nullopt);
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(takers_.Shown(), nullptr);
}

TEST_F(TakersTest, NothingStaysHereAfterItIsGivenUp) {
  Start();
  EXPECT_EQ(Look(), ReadResult::kRecord);
  run_.run->Stop();
  const std::lock_guard lock(mutex_);
  takers_.GiveUp();
  EXPECT_EQ(takers_.Shown(), nullptr);
}

TEST_F(TakersTest, WhatAThreadIsToldOfWhatItHoldsStaysUntilItReadsAgain) {
  Start(2);
  std::vector<Taken> held(2);
  std::vector<std::shared_ptr<const void>> leases;
  for (Taken& taken : held) {
    ASSERT_EQ(Take(&taken), ReadResult::kRecord);
    leases.push_back(taken.of.run->Lease(std::move(taken.delivery)));
  }
  Taken taken;
  ASSERT_EQ(Take(&taken), ReadResult::kFailed);
  leases.clear();
  std::thread([this] {
    EXPECT_EQ(Look(), ReadResult::kRecord);
    Taken other;
    ASSERT_EQ(Take(&other), ReadResult::kRecord);
    NumberOf(std::move(other));
    ASSERT_EQ(Take(&other), ReadResult::kRecord);
    NumberOf(std::move(other));
  }).join();
  EXPECT_EQ(FailureCode(), StatusCode::kResourceExhausted);
  ASSERT_EQ(Take(&taken), ReadResult::kRecord);
  EXPECT_EQ(FailureCode(), StatusCode::kOk);
  NumberOf(std::move(taken));
}

}  // namespace
}  // namespace ringfeed
