#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ringfeed/queue/blocking_queue.h"
#include "tests/queue/numbered_instance.h"

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<LoDTensorBlockingQueue> MakeQueue(std::size_t capacity) {
  return std::make_shared<LoDTensorBlockingQueue>(capacity, NumberSlots());
}

QueueGenerator PushNumbers(std::int64_t count) {
  return [count](LoDTensorBlockingQueue& queue, const std::stop_token&) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!queue.Push(Numbered(i))) return;
    }
  };
}

TEST(QueueProducer, AGeneratorThatReturnsClosesTheQueueBehindItsInstances) {
  const auto queue = MakeQueue(2);
  const QueueProducer producer(queue, PushNumbers(10));
  bool ok = true;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(NumberOf(queue->Pop(&ok)), i);
  }
  EXPECT_TRUE(queue->Pop(&ok).empty());
  EXPECT_FALSE(ok);
}

TEST(QueueProducer, AGeneratorThatThrowsEndsTheStreamWithItsErrorAtTheConsumer) {
  const auto queue = MakeQueue(2);
  std::atomic<bool> waiting{false};
  const QueueProducer producer(queue, [&](LoDTensorBlockingQueue&, const std::stop_token&) {
    while (!waiting) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(5));
    throw std::runtime_error("no more milk");
  });
  waiting = true;
  Instance instance;
  EXPECT_EQ(queue->Pop(&instance), QueueResult::kFailed);
  EXPECT_EQ(queue->status().code(), StatusCode::kUserError);
  EXPECT_NE(queue->status().message().find("no more milk"), std::string::npos);
}

TEST(QueueProducer, WhatAGeneratorPushedBeforeItThrewComesBeforeItsError) {
  constexpr std::int64_t kPushed = 50;
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{kPushed}}) {
    const auto queue = MakeQueue(capacity);
    const QueueProducer producer(queue, [](LoDTensorBlockingQueue& out, const std::stop_token&) {
      PushNumbers(kPushed)(out, {});
      throw std::runtime_error("no more milk");
    });
    // Where all of them have room, the consumer comes after the error.
    while (capacity == kPushed && !queue->IsClosed()) std::this_thread::yield();
    Instance instance;
    for (std::int64_t i = 0; i < kPushed; ++i) {
      ASSERT_EQ(queue->Pop(&instance), QueueResult::kOk) << "instance " << i;
      EXPECT_EQ(NumberOf(instance), i);
    }
    EXPECT_EQ(queue->Pop(&instance), QueueResult::kFailed);
    EXPECT_NE(queue->status().message().find("no more milk"), std::string::npos);
    EXPECT_FALSE(queue->IsKilled());
  }
}

TEST(QueueProducer, AQueueWhoseGeneratorThrewCanBeOpenedAgain) {
  LoDTensorBlockingQueueHolder holder;
  holder.InitOnce(2, NumberSlots());
  EXPECT_FALSE(Produce(*holder.GetQueue(), [](LoDTensorBlockingQueue&, const std::stop_token&) {
                 throw std::runtime_error("no more milk");
               }).ok());
  const auto opened = holder.ReOpen();
  EXPECT_TRUE(Produce(*opened, PushNumbers(1)).ok());
  bool ok = false;
  EXPECT_EQ(NumberOf(opened->Pop(&ok)), 0);
}

TEST(QueueProducer, AnInstanceThatDoesNotFitEndsTheStreamWithTheNameOfItsSlot) {
  const auto queue = MakeQueue(2);
  const QueueProducer producer(queue, [](LoDTensorBlockingQueue& out, const std::stop_token&) {
    Instance wrong = Numbered(0);
    wrong[1].shape = {3};
    out.Push(std::move(wrong));
  });
  Instance instance;
  EXPECT_EQ(queue->Pop(&instance), QueueResult::kFailed);
  EXPECT_EQ(queue->status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(queue->status().message().find("\"words\""), std::string::npos);
}

TEST(QueueProducer, BreakingOffFreesAGeneratorThatPushes) {
  const auto queue = MakeQueue(2);
  {
    const QueueProducer producer(queue, PushNumbers(1'000'000'000));
    bool ok = false;
    EXPECT_EQ(NumberOf(queue->Pop(&ok)), 0);
  }
  EXPECT_TRUE(queue->IsClosed());
  EXPECT_FALSE(queue->IsKilled());
}

TEST(QueueProducer, BreakingOffStopsAGeneratorThatWaitsElsewhere) {
  const auto queue = MakeQueue(2);
  std::atomic<bool> stopped{false};
  {
    const QueueProducer producer(queue, [&](LoDTensorBlockingQueue&, const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock(mutex);
      never.wait(lock, stop, [] { return false; });
      stopped = true;
    });
  }
  EXPECT_TRUE(stopped);
  Instance instance;
  EXPECT_EQ(queue->Pop(&instance), QueueResult::kClosed);
}

TEST(QueueProducer, WhatAGeneratorThrowsBecauseItWasBrokenOffIsNoFailure) {
  for (const bool closed_by_consumer : {false, true}) {
    const auto queue = MakeQueue(1);
    QueueProducer producer(queue, [](LoDTensorBlockingQueue& out, const std::stop_token&) {
      for (;;) {
        if (!out.Push(Numbered(0))) throw std::runtime_error("the queue is closed");
      }
    });
    if (closed_by_consumer) queue->Close();
    producer.Stop();
    producer.Stop();
    EXPECT_TRUE(queue->status().ok());
    EXPECT_FALSE(queue->IsKilled());
  }
}

TEST(QueueProducer, ProduceOnTheCallingThreadReturnsTheFailure) {
  const auto queue = MakeQueue(20);
  EXPECT_TRUE(Produce(*queue, PushNumbers(10)).ok());
  EXPECT_TRUE(queue->IsClosed());
  EXPECT_EQ(queue->Size(), 10U);
  const auto killed = MakeQueue(20);
  const Status status = Produce(*killed, [](LoDTensorBlockingQueue&, const std::stop_token&) {
    throw Error(Status(StatusCode::kIoError, "disk"));
  });
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(killed->status().code(), StatusCode::kIoError);
}

TEST(QueueProducer, RefusesWhatCannotWork) {
  EXPECT_THROW(QueueProducer(nullptr, PushNumbers(1)), Error);
  EXPECT_THROW(QueueProducer(MakeQueue(1), nullptr), Error);
}

}  // namespace
}  // namespace ringfeed
