#include "ringfeed/queue/blocking_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/tensor.h"
#include "tests/queue/numbered_instance.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

Status Disk() { return Status(StatusCode::kIoError, "disk"); }

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    return error.status().message();
  }
  return "nothing was thrown";
}

TEST(BlockingQueue, KnowsItsCapacityAndSlotsAndRefusesNone) {
  for (const std::size_t capacity : {1u, 2u, 10u}) {
    const LoDTensorBlockingQueue queue(capacity, NumberSlots());
    EXPECT_EQ(queue.Cap(), capacity);
    EXPECT_EQ(queue.Size(), 0U);
    EXPECT_EQ(queue.slots().size(), 2U);
    EXPECT_FALSE(queue.IsClosed());
  }
  EXPECT_THROW(LoDTensorBlockingQueue(0, NumberSlots()), Error);
  EXPECT_THROW(LoDTensorBlockingQueue(1, {}), Error);
}

TEST(BlockingQueue, FirstInFirstOutWithASlowEndOnEitherSide) {
  for (const std::size_t capacity : {2u, 10u}) {
    for (const bool slow_push : {false, true}) {
      for (const bool slow_pop : {false, true}) {
        LoDTensorBlockingQueue queue(capacity, NumberSlots());
        std::thread producer([&] {
          for (std::int64_t i = 0; i < 20; ++i) {
            if (slow_push) std::this_thread::sleep_for(milliseconds(1));
            EXPECT_TRUE(queue.Push(Numbered(i)));
          }
          queue.Close();
        });
        std::vector<std::int64_t> found;
        Instance instance;
        while (queue.Pop(&instance) == QueueResult::kOk) {
          if (slow_pop) std::this_thread::sleep_for(milliseconds(1));
          found.push_back(NumberOf(instance));
        }
        producer.join();
        std::vector<std::int64_t> expected(20);
        std::iota(expected.begin(), expected.end(), 0);
        EXPECT_EQ(found, expected) << capacity << slow_push << slow_pop;
      }
    }
  }
}

TEST(BlockingQueue, ASenderBlocksAtCapacityAndIsFreedByCloseWithTheRestReadable) {
  LoDTensorBlockingQueue queue(3, NumberSlots());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Push(Numbered(i)));
  std::atomic<bool> returned{false};
  Instance refused = Numbered(99);
  std::thread sender([&] {
    EXPECT_FALSE(queue.Push(std::move(refused)));
    returned = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(returned);
  EXPECT_EQ(queue.Size(), 3U);
  queue.Close();
  sender.join();
  EXPECT_EQ(NumberOf(refused), 99) << "what was not accepted is untouched";
  EXPECT_FALSE(queue.Push(Numbered(4)));
  bool ok = false;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(NumberOf(queue.Pop(&ok)), i);
    EXPECT_TRUE(ok);
  }
  EXPECT_TRUE(queue.Pop(&ok).empty());
  EXPECT_FALSE(ok);
  EXPECT_TRUE(queue.status().ok());
}

TEST(BlockingQueue, AReceiverDrainsAfterCloseAndIsFreedByIt) {
  LoDTensorBlockingQueue queue(10, NumberSlots());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(queue.Push(Numbered(i)));
  std::vector<std::int64_t> found;
  std::thread receiver([&] {
    bool ok = true;
    for (;;) {
      const Instance instance = queue.Pop(&ok);
      if (!ok) return;
      found.push_back(NumberOf(instance));
    }
  });
  std::this_thread::sleep_for(milliseconds(10));  // it may stand in an empty queue, or not
  queue.Close();
  receiver.join();
  EXPECT_EQ(found, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(queue.IsClosed());
}

TEST(BlockingQueue, ALoopPopsUntilTheEndWithoutAnOutParameter) {
  LoDTensorBlockingQueue queue(10, NumberSlots());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(queue.Push(Numbered(i)));
  queue.Close();
  std::int64_t next = 0;
  while (auto instance = queue.Pop()) EXPECT_EQ(NumberOf(*instance), next++);
  EXPECT_EQ(next, 5);
  EXPECT_FALSE(queue.Pop()) << "the end stays";
  LoDTensorBlockingQueue killed(10, NumberSlots());
  EXPECT_TRUE(killed.Push(Numbered(0)));
  killed.Kill(Status(StatusCode::kIoError, "disk"));
  EXPECT_THROW((void)killed.Pop(), Error);
}

TEST(BlockingQueue, InSpeedTestModeALoopGetsTheFirstInstanceUntilItIsClosed) {
  LoDTensorBlockingQueue queue(10, NumberSlots(), {.speed_test_mode = true});
  EXPECT_TRUE(queue.Push(Numbered(7)));
  int popped = 0;
  while (auto instance = queue.Pop()) {
    EXPECT_EQ(NumberOf(*instance), 7);
    if (++popped == 20) queue.Close();
  }
  EXPECT_EQ(popped, 20);
}

TEST(BlockingQueue, ManySendersAndReceiversMoveEqualSets) {
  for (const std::size_t capacity : {2u, 10u, 20u}) {
    for (const int receivers : {2, 3, 20, 30}) {
      constexpr int kSenders = 5;
      int each = StressRounds(1000);
      LoDTensorBlockingQueue queue(capacity, NumberSlots());
      std::vector<std::vector<std::int64_t>> taken(static_cast<std::size_t>(receivers));
      std::vector<std::jthread> threads;
      for (auto& mine : taken) {
        threads.emplace_back([&queue, &mine] {
          Instance instance;
          while (queue.Pop(&instance) == QueueResult::kOk) mine.push_back(NumberOf(instance));
        });
      }
      {
        std::vector<std::jthread> senders;
        for (int s = 0; s < kSenders; ++s) {
          senders.emplace_back([&queue, s, each] {
            for (int i = 0; i < each; ++i) EXPECT_TRUE(queue.Push(Numbered(s * each + i)));
          });
        }
      }
      queue.Close();
      threads.clear();
      std::vector<std::int64_t> all;
      for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
      std::sort(all.begin(), all.end());
      std::vector<std::int64_t> expected(static_cast<std::size_t>(kSenders * each));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected) << capacity << " " << receivers;
    }
  }
}

TEST(BlockingQueue, TensorsAreMovedThroughWithoutACopy) {
  LoDTensorBlockingQueue queue(2, NumberSlots());
  Instance instance = Numbered(7);
  const std::byte* const data = instance[0].data;
  const Tensor* const tensors = instance.data();
  const std::weak_ptr<const void> owner = instance[0].owner;
  const long owners = owner.use_count();
  EXPECT_TRUE(queue.Push(std::move(instance)));
  EXPECT_EQ(owner.use_count(), owners);
  Instance popped;
  EXPECT_EQ(queue.Pop(&popped), QueueResult::kOk);
  EXPECT_EQ(popped[0].data, data);
  EXPECT_EQ(popped.data(), tensors);
  EXPECT_EQ(owner.use_count(), owners);
  popped.clear();
  EXPECT_TRUE(owner.expired());
}

TEST(BlockingQueue, ACopiedPushSharesItsTensors) {
  LoDTensorBlockingQueue queue(2, NumberSlots());
  const Instance kept = Numbered(7);
  const long owners = kept[0].owner.use_count();
  EXPECT_TRUE(queue.Push(kept));
  EXPECT_EQ(kept[0].owner.use_count(), 2 * owners);
  bool ok = false;
  const Instance popped = queue.Pop(&ok);
  EXPECT_EQ(popped[0].data, kept[0].data);
}

TEST(BlockingQueue, KillDropsWhatIsInItAndFailsEveryCall) {
  LoDTensorBlockingQueue queue(4, NumberSlots());
  EXPECT_TRUE(queue.Push(Numbered(1)));
  EXPECT_FALSE(queue.IsKilled());
  queue.Kill(Disk());
  queue.Kill(Status(StatusCode::kDamaged, "second"));
  EXPECT_TRUE(queue.IsClosed());
  EXPECT_TRUE(queue.IsKilled());
  EXPECT_FALSE(queue.Push(Numbered(2)));
  Instance instance;
  EXPECT_EQ(queue.Pop(&instance), QueueResult::kFailed);
  bool ok = true;
  try {
    (void)queue.Pop(&ok);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().message(), "disk");
  }
  EXPECT_FALSE(ok);
  EXPECT_EQ(queue.status().code(), StatusCode::kIoError);
}

TEST(BlockingQueue, KillTakesWhatAProducerThrew) {
  const auto status_of = [](const std::exception_ptr& thrown) {
    LoDTensorBlockingQueue queue(1, NumberSlots());
    queue.Kill(thrown);
    return queue.status();
  };
  EXPECT_EQ(status_of(std::make_exception_ptr(Error(Disk()))).code(), StatusCode::kIoError);
  const Status thrown = status_of(std::make_exception_ptr(std::runtime_error("no more milk")));
  EXPECT_EQ(thrown.code(), StatusCode::kUserError);
  EXPECT_NE(thrown.message().find("no more milk"), std::string::npos);
  EXPECT_EQ(status_of(std::make_exception_ptr(42)).code(), StatusCode::kUserError);
  EXPECT_EQ(status_of(std::make_exception_ptr(Error(Status()))).code(), StatusCode::kUserError);
  EXPECT_EQ(status_of(nullptr).code(), StatusCode::kCancelled);
}

TEST(BlockingQueue, CloseWithAFailureDeliversWhatCameBeforeIt) {
  LoDTensorBlockingQueue queue(4, NumberSlots());
  EXPECT_TRUE(queue.Push(Numbered(1)));
  queue.Close(Disk());
  EXPECT_FALSE(queue.IsKilled());
  bool ok = false;
  EXPECT_EQ(NumberOf(queue.Pop(&ok)), 1);
  EXPECT_TRUE(ok);
  EXPECT_THROW((void)queue.Pop(&ok), Error);
}

TEST(BlockingQueue, EndingItWakesEveryoneWhoWaits) {
  for (const bool full : {false, true}) {
    for (const bool kill : {false, true}) {
      LoDTensorBlockingQueue queue(1, NumberSlots());
      if (full) {
        EXPECT_TRUE(queue.Push(Numbered(0)));
      }
      std::vector<std::jthread> waiting;
      for (int i = 0; i < 6; ++i) {
        waiting.emplace_back([&] {
          if (full) {
            EXPECT_FALSE(queue.Push(Numbered(1)));
          } else {
            Instance instance;
            EXPECT_EQ(queue.Pop(&instance), kill ? QueueResult::kFailed : QueueResult::kClosed);
          }
        });
      }
      std::this_thread::sleep_for(milliseconds(10));
      kill ? queue.Kill(Disk()) : queue.Close();
    }
  }
}

TEST(BlockingQueue, DeadlinesAndStopTokensEndWaits) {
  LoDTensorBlockingQueue queue(1, NumberSlots());
  Instance instance;
  EXPECT_EQ(queue.PopUntil(&instance, DeadlineAfter(milliseconds(2))), QueueResult::kTimeout);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(5));
    stop.request_stop();
  });
  EXPECT_EQ(queue.Pop(&instance, stop.get_token()), QueueResult::kStopped);
  EXPECT_TRUE(queue.Push(Numbered(1)));
  Instance late = Numbered(2);
  EXPECT_FALSE(queue.Push(std::move(late), stop.get_token()));
  EXPECT_EQ(queue.PushUntil(std::move(late), DeadlineAfter(milliseconds(2))),
            QueueResult::kTimeout);
  EXPECT_EQ(NumberOf(late), 2) << "what was not accepted is untouched";
}

TEST(BlockingQueue, AnInstanceThatDoesNotFitIsRefusedByTheNameOfItsSlot) {
  LoDTensorBlockingQueue queue(1, NumberSlots());
  Instance wrong_rows = Numbered(1);
  wrong_rows[1].shape = {3};
  EXPECT_NE(MessageOf([&] { queue.Push(wrong_rows); }).find("\"words\""), std::string::npos);
  Instance wrong_type = Numbered(1);
  wrong_type[0].dtype = kInt32;
  EXPECT_NE(MessageOf([&] { queue.Push(std::move(wrong_type)); }).find("\"number\""),
            std::string::npos);
  EXPECT_NE(MessageOf([&] { queue.Push(Instance{}); }).find("2 slots"), std::string::npos);
  EXPECT_EQ(queue.Size(), 0U);
  // It is told also where it would have to wait, or could not be pushed at all.
  EXPECT_TRUE(queue.Push(Numbered(1)));
  EXPECT_THROW(queue.Push(wrong_rows), Error);
  queue.Close();
  EXPECT_THROW(queue.Push(wrong_rows), Error);
}

TEST(BlockingQueue, ATensorWithoutAnOwnerIsRefusedUnlessItIsEmpty) {
  LoDTensorBlockingQueue queue(4, {{"rows", kInt64, {-1}}});
  const std::vector<std::int64_t> local = {1, 2};
  Tensor rows{kInt64, {2}, reinterpret_cast<const std::byte*>(local.data()), 16, {}, nullptr};
  const std::string message = MessageOf([&] { queue.Push({rows}); });
  EXPECT_NE(message.find("\"rows\""), std::string::npos) << message;
  EXPECT_NE(message.find("owner"), std::string::npos) << message;
  EXPECT_EQ(queue.Size(), 0U);
  EXPECT_TRUE(queue.Push({Tensor{kInt64, {0}, nullptr, 0, {}, nullptr}}));
  // What lives for ever says so by an owner of nothing.
  rows.owner = std::shared_ptr<const void>(local.data(), [](const void*) {});
  EXPECT_TRUE(queue.Push({rows}));
}

TEST(BlockingQueue, SpeedTestModeRepeatsTheFirstInstanceAndKeepsItsSize) {
  LoDTensorBlockingQueue plain(10, NumberSlots());
  LoDTensorBlockingQueue queue(10, NumberSlots(), {.speed_test_mode = true});
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(plain.Push(Numbered(i)));
    EXPECT_TRUE(queue.Push(Numbered(i)));
  }
  bool ok = false;
  const Instance shown = queue.Pop(&ok);
  const std::byte* const data = shown[0].data;
  for (int i = 0; i < 30; ++i) {
    if (i < 10) {
      EXPECT_EQ(NumberOf(plain.Pop(&ok)), i);
    }
    const Instance first = queue.Pop(&ok);
    EXPECT_TRUE(ok);
    EXPECT_EQ(NumberOf(first), 0);
    EXPECT_EQ(first[0].data, data) << "its tensors are shared";
  }
  EXPECT_EQ(plain.Size(), 0U);
  EXPECT_EQ(queue.Size(), 10U);
  Instance one_more = Numbered(10);
  EXPECT_EQ(queue.PushUntil(std::move(one_more), DeadlineAfter(milliseconds(1))),
            QueueResult::kTimeout);
}

TEST(BlockingQueue, SpeedTestModeServesManyThreadsUntilItIsEnded) {
  for (const bool kill : {false, true}) {
    LoDTensorBlockingQueue queue(2, NumberSlots(), {.speed_test_mode = true});
    std::atomic<std::int64_t> pops{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {  // these wait for the first instance
        Instance instance;
        QueueResult result = QueueResult::kOk;
        while ((result = queue.Pop(&instance)) == QueueResult::kOk) {
          EXPECT_EQ(NumberOf(instance), 5);
          ++pops;
        }
        EXPECT_EQ(result, kill ? QueueResult::kFailed : QueueResult::kClosed);
      });
    }
    std::this_thread::sleep_for(milliseconds(5));
    Instance none;
    EXPECT_EQ(queue.PopUntil(&none, DeadlineAfter(milliseconds(1))), QueueResult::kTimeout);
    EXPECT_TRUE(queue.Push(Numbered(5)));
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (queue.Push(Numbered(6))) {
        }
      });
    }
    while (queue.Size() < 2) std::this_thread::yield();
    const std::int64_t before = pops;
    while (pops < before + 1000) std::this_thread::yield();
    EXPECT_EQ(queue.Size(), 2U);
    kill ? queue.Kill(Disk()) : queue.Close();
  }
}

TEST(BlockingQueue, SpeedTestModeEndsForThoseWhoWaitForTheFirst) {
  LoDTensorBlockingQueue queue(2, NumberSlots(), {.speed_test_mode = true});
  std::jthread waiting([&] {
    Instance instance;
    EXPECT_EQ(queue.Pop(&instance), QueueResult::kFailed);
  });
  std::this_thread::sleep_for(milliseconds(10));
  queue.Close(Disk());
}

constexpr BlockingQueueOptions kLearns = {.learn_dtypes = true};

std::vector<SlotSpec> OneSlot() { return {{"x", kFloat32, {-1}}}; }

template <typename T>
Instance OneTensor(T value) {
  Instance instance;
  instance.push_back(MakeTensor(std::vector<T>{value}));
  return instance;
}

TEST(BlockingQueue, DTypesAreLearntFromTheFirstInstanceAndLaterOnesAreHeldAgainstThem) {
  LoDTensorBlockingQueue queue(4, OneSlot(), kLearns);
  EXPECT_NE(MessageOf([&] { queue.slots(); }).find("none was pushed yet"), std::string::npos);
  EXPECT_EQ(queue.AwaitSlots(DeadlineAfter(milliseconds(1))), QueueResult::kTimeout);
  // What does not fit otherwise teaches it nothing.
  Instance two = OneTensor<std::int32_t>(1);
  two.push_back(two[0]);
  EXPECT_NE(MessageOf([&] { queue.Push(two); }).find("1 slots"), std::string::npos);
  EXPECT_TRUE(queue.Push(OneTensor<std::int64_t>(7)));
  EXPECT_EQ(queue.AwaitSlots(kNoDeadline), QueueResult::kOk);
  EXPECT_EQ(queue.slots().at(0).dtype, kInt64);
  const std::string refused = MessageOf([&] { queue.Push(OneTensor(1.5F)); });
  EXPECT_NE(refused.find("slot 0 \"x\": expected int64"), std::string::npos) << refused;
  EXPECT_EQ(queue.Size(), 1U);
  queue.Close();
  EXPECT_EQ(queue.AwaitSlots(kNoDeadline), QueueResult::kOk);
}

TEST(BlockingQueue, WhoWaitsForDTypesIsWokenByTheFirstInstanceOrTheEnd) {
  for (const bool ends : {false, true}) {
    LoDTensorBlockingQueue queue(4, OneSlot(), kLearns);
    std::jthread waiting([&] {
      EXPECT_EQ(queue.AwaitSlots(kNoDeadline), ends ? QueueResult::kClosed : QueueResult::kOk);
    });
    std::this_thread::sleep_for(milliseconds(10));
    if (ends) {
      queue.Close();
      EXPECT_FALSE(queue.Push(OneTensor<std::int64_t>(1))) << "as where the dtypes are declared";
      EXPECT_THROW(queue.slots(), Error);
    } else {
      EXPECT_TRUE(queue.Push(OneTensor<std::int64_t>(1)));
    }
  }
}

TEST(BlockingQueue, OfProducersThatDifferOneTeachesAndTheOthersAreRefused) {
  for (int round = 0; round < StressRounds(50); ++round) {
    LoDTensorBlockingQueue queue(8, OneSlot(), kLearns);
    std::atomic<int> taken{0};
    {
      std::vector<std::jthread> producers;
      for (int i = 0; i < 4; ++i) {
        producers.emplace_back([&, i] {
          try {
            taken +=
                (i % 2 == 0 ? queue.Push(OneTensor(1.5F)) : queue.Push(OneTensor(1.5))) ? 1 : 0;
          } catch (const Error&) {
          }
        });
      }
    }
    EXPECT_EQ(taken, 2);
    const DType learnt = queue.slots().at(0).dtype;
    Instance instance;
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(queue.Pop(&instance), QueueResult::kOk);
      EXPECT_EQ(instance[0].dtype, learnt);
    }
  }
}

TEST(QueueHolder, AQueueThatIsOpenedAgainKnowsTheDTypesThatWereLearnt) {
  LoDTensorBlockingQueueHolder holder;
  holder.InitOnce(2, OneSlot(), kLearns);
  EXPECT_THROW(holder.ReOpen()->slots(), Error) << "nothing was learnt";
  EXPECT_TRUE(holder.GetQueue()->Push(OneTensor<std::int32_t>(1)));
  const auto opened = holder.ReOpen();
  EXPECT_EQ(opened->slots().at(0).dtype, kInt32);
  EXPECT_THROW(opened->Push(OneTensor(1.5F)), Error);
  EXPECT_TRUE(holder.ReOpen()->Push(OneTensor<std::int32_t>(2)));
}

TEST(QueueHolder, IsInitedOnceAndNotUsedBefore) {
  LoDTensorBlockingQueueHolder holder;
  EXPECT_NE(MessageOf([&] { holder.GetQueue(); }).find("InitOnce"), std::string::npos);
  EXPECT_THROW(holder.ReOpen(), Error);
  EXPECT_THROW(holder.InitOnce(0, NumberSlots()), Error);
  holder.InitOnce(3, NumberSlots());
  EXPECT_EQ(holder.GetQueue()->Cap(), 3U);
  EXPECT_NE(MessageOf([&] { holder.InitOnce(4, NumberSlots()); }).find("once"), std::string::npos);
  EXPECT_EQ(holder.GetQueue()->Cap(), 3U);
}

TEST(QueueHolder, ReOpenDiscardsWhatIsInTheOldQueueAndTakesInstancesAgain) {
  LoDTensorBlockingQueueHolder holder;
  holder.InitOnce(2, NumberSlots());
  const auto old = holder.GetQueue();
  Instance instance = Numbered(1);
  const std::weak_ptr<const void> owner = instance[0].owner;
  EXPECT_TRUE(old->Push(std::move(instance)));
  old->Close();
  const auto opened = holder.ReOpen();
  EXPECT_EQ(holder.GetQueue(), opened);
  EXPECT_NE(opened, old);
  EXPECT_TRUE(owner.expired());
  EXPECT_EQ(opened->Cap(), 2U);
  EXPECT_EQ(opened->Size(), 0U);
  EXPECT_FALSE(opened->IsClosed());
  EXPECT_FALSE(old->Push(Numbered(2)));
  Instance rest;
  EXPECT_EQ(old->Pop(&rest), QueueResult::kClosed);
  EXPECT_TRUE(opened->Push(Numbered(3)));
  EXPECT_EQ(opened->Pop(&rest), QueueResult::kOk);
  EXPECT_EQ(NumberOf(rest), 3);
}

TEST(QueueHolder, ReOpenAfterKeepsAQueueThatIsNewAlready) {
  LoDTensorBlockingQueueHolder holder;
  holder.InitOnce(2, NumberSlots());
  const auto first = holder.GetQueue();
  const auto second = holder.ReOpenAfter(first);
  EXPECT_NE(second, first);
  EXPECT_EQ(holder.ReOpenAfter(first), second);
  EXPECT_FALSE(second->IsClosed());
}

TEST(QueueHolder, ReOpenAfterKillThrowsWithItsStatus) {
  LoDTensorBlockingQueueHolder holder;
  holder.InitOnce(2, NumberSlots());
  holder.GetQueue()->Kill(Disk());
  for (int i = 0; i < 2; ++i) {
    try {
      holder.ReOpen();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kIoError);
    }
  }
}

TEST(QueueHolder, ReOpenWakesThoseOnTheOldQueue) {
  for (const bool full : {false, true}) {
    LoDTensorBlockingQueueHolder holder;
    holder.InitOnce(1, NumberSlots());
    const auto old = holder.GetQueue();
    if (full) {
      EXPECT_TRUE(old->Push(Numbered(0)));
    }
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back([&] {
        if (full) {
          EXPECT_FALSE(old->Push(Numbered(1)));
        } else {
          Instance instance;
          EXPECT_EQ(old->Pop(&instance), QueueResult::kClosed);
        }
      });
    }
    std::this_thread::sleep_for(milliseconds(10));
    holder.ReOpen();
  }
}

TEST(QueueHolder, ReOpensFromManyThreadsAmongPushesAndPops) {
  LoDTensorBlockingQueueHolder holder;
  holder.InitOnce(2, NumberSlots());
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!over) (void)holder.GetQueue()->Push(Numbered(1));
    });
    threads.emplace_back([&] {
      Instance instance;
      while (!over) (void)holder.GetQueue()->Pop(&instance);
    });
  }
  {
    std::vector<std::jthread> openers;
    for (int i = 0; i < 2; ++i) {
      openers.emplace_back([&] {
        for (int k = 0; k < StressRounds(500); ++k) (void)holder.ReOpen();
      });
    }
  }
  over = true;
  holder.GetQueue()->Close();
}

}  // namespace
}  // namespace ringfeed
