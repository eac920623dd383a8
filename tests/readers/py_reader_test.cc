#include "ringfeed/compat/py_reader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "tests/queue/numbered_instance.h"

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<LoDTensorBlockingQueueHolder> MakeHolder(std::size_t capacity) {
  auto holder = std::make_shared<LoDTensorBlockingQueueHolder>();
  holder->InitOnce(capacity, NumberSlots());
  return holder;
}

/// Pushes first, first + 1, … until it has pushed `count` or the queue is closed.
QueueGenerator NumbersFrom(std::int64_t first, std::int64_t count) {
  return [first, count](LoDTensorBlockingQueue& queue, const std::stop_token&) {
    for (std::int64_t i = first; i < first + count; ++i) {
      if (!queue.Push(Numbered(i))) return;
    }
  };
}

std::vector<std::int64_t> Range(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = first; i < first + count; ++i) numbers.push_back(i);
  return numbers;
}

struct Found {
  std::vector<std::int64_t> numbers;
  ReadResult end = ReadResult::kRecord;
  Status status;
};

/// Reads to the end, at most `most` instances.
Found ReadAll(InstanceSource& reader, std::size_t most = 1'000'000) {
  Found found;
  Instance instance;
  while (found.numbers.size() < most) {
    found.end = reader.ReadNext(&instance, {}, &found.status);
    if (found.end != ReadResult::kRecord) break;
    found.numbers.push_back(NumberOf(instance));
  }
  return found;
}

TEST(PyReader, DeliversWhatIsPushedUntilClose) {
  const auto holder = MakeHolder(3);
  PyReader reader(holder);
  const QueueProducer producer(holder->GetQueue(), NumbersFrom(0, 50));
  const Found found = ReadAll(reader);
  EXPECT_EQ(found.numbers, Range(0, 50));
  EXPECT_EQ(found.end, ReadResult::kEnd);
}

TEST(PyReader, ReadsASingleQueueOnce) {
  const auto queue = std::make_shared<LoDTensorBlockingQueue>(3, NumberSlots());
  PyReader reader(queue);
  const QueueProducer producer(queue, NumbersFrom(0, 50));
  EXPECT_EQ(ReadAll(reader).numbers, Range(0, 50));
  EXPECT_FALSE(reader.ReInit());
}

TEST(PyReader, AFailureOfTheProducerIsItsFailure) {
  const auto holder = MakeHolder(100);
  PyReader reader(holder);
  holder->GetQueue()->Push(Numbered(0));
  EXPECT_EQ(ReadAll(reader, 1).numbers, Range(0, 1));
  const QueueProducer producer(holder->GetQueue(),
                               [](LoDTensorBlockingQueue&, const std::stop_token&) {
                                 throw std::runtime_error("no more milk");
                               });
  const Found found = ReadAll(reader);
  EXPECT_EQ(found.end, ReadResult::kFailed);
  EXPECT_NE(found.status.message().find("no more milk"), std::string::npos);
  EXPECT_TRUE(reader.ReInit()) << "the next pass is another try";
  holder->GetQueue()->Kill(Status(StatusCode::kIoError, "disk"));
  EXPECT_THROW(reader.ReInit(), Error);
}

TEST(PyReader, CloseWithAFailureComesBehindWhatWasPushed) {
  const auto holder = MakeHolder(100);
  PyReader reader(holder);
  for (const std::int64_t i : Range(0, 5)) holder->GetQueue()->Push(Numbered(i));
  holder->GetQueue()->Close(Status(StatusCode::kIoError, "disk"));
  const Found found = ReadAll(reader);
  EXPECT_EQ(found.numbers, Range(0, 5));
  EXPECT_EQ(found.end, ReadResult::kFailed);
  EXPECT_EQ(found.status.code(), StatusCode::kIoError);
}

TEST(PyReader, AStopEndsItsWait) {
  PyReader reader(MakeHolder(1));
  std::stop_source stop;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(5));
    stop.request_stop();
  });
  Instance instance;
  Status status;
  EXPECT_EQ(reader.ReadNext(&instance, stop.get_token(), &status), ReadResult::kFailed);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST(PyReader, BreakingOffLosesNothingOfTheNewPassAndDeliversNothingOfTheOld) {
  const auto holder = MakeHolder(4);
  PyReader reader(holder);
  for (std::int64_t pass = 0; pass < 100; ++pass) {
    const std::int64_t first = 1000 * pass;
    const QueueProducer producer(holder->GetQueue(), NumbersFrom(first, 30));
    const std::int64_t taken = (pass + 7) % 31;
    EXPECT_EQ(ReadAll(reader, static_cast<std::size_t>(taken)).numbers, Range(first, taken));
    ASSERT_TRUE(reader.ReInit());
  }
}

TEST(PyReader, ReInitFreesTheProducerOfTheOldPass) {
  const auto holder = MakeHolder(1);
  PyReader reader(holder);
  std::jthread producer([queue = holder->GetQueue()] {
    while (queue->Push(Numbered(0))) {
    }
  });
  EXPECT_EQ(ReadAll(reader, 1).numbers, Range(0, 1));
  EXPECT_TRUE(reader.ReInit());
  producer.join();
}

TEST(PyReader, ReInitBeforeTheFirstReadKeepsWhatWasPushed) {
  const auto holder = MakeHolder(10);
  PyReader reader(holder);
  EXPECT_FALSE(reader.Ready());
  EXPECT_TRUE(Produce(*holder->GetQueue(), NumbersFrom(0, 5)).ok());
  EXPECT_TRUE(reader.ReInit());
  EXPECT_EQ(ReadAll(reader).numbers, Range(0, 5));
}

TEST(PyReader, ReInitTakesTheQueueOfAHolderThatWasReOpenedAlready) {
  const auto holder = MakeHolder(10);
  PyReader reader(holder);
  EXPECT_TRUE(Produce(*holder->GetQueue(), NumbersFrom(0, 5)).ok());
  EXPECT_EQ(ReadAll(reader, 2).numbers, Range(0, 2));
  holder->ReOpen();
  EXPECT_TRUE(Produce(*holder->GetQueue(), NumbersFrom(10, 5)).ok());
  EXPECT_EQ(ReadAll(reader).end, ReadResult::kEnd) << "the old pass is over";
  EXPECT_TRUE(reader.ReInit());
  EXPECT_EQ(ReadAll(reader).numbers, Range(10, 5));
}

TEST(PyReader, IsReadyWhereItNeedNotWait) {
  const auto holder = MakeHolder(2);
  PyReader reader(holder);
  holder->GetQueue()->Push(Numbered(0));
  holder->GetQueue()->Push(Numbered(1));
  EXPECT_EQ(ReadAll(reader, 1).numbers, Range(0, 1));
  EXPECT_TRUE(reader.Ready());
  EXPECT_EQ(ReadAll(reader, 1).numbers, Range(1, 1));
  EXPECT_FALSE(reader.Ready());
  holder->GetQueue()->Close();
  EXPECT_TRUE(reader.Ready());
}

TEST(PyReader, ItsEndFreesTheProducer) {
  const auto holder = MakeHolder(1);
  std::jthread producer;
  {
    PyReader reader(holder);
    producer = std::jthread([queue = holder->GetQueue()] {
      while (queue->Push(Numbered(0))) {
      }
    });
    EXPECT_EQ(ReadAll(reader, 1).numbers, Range(0, 1));
  }
  producer.join();
}

TEST(PyReader, NeedsAQueue) {
  EXPECT_THROW(PyReader(std::shared_ptr<LoDTensorBlockingQueueHolder>()), Error);
  EXPECT_THROW(PyReader(std::shared_ptr<LoDTensorBlockingQueue>()), Error);
  PyReader reader(std::make_shared<LoDTensorBlockingQueueHolder>());
  Instance instance;
  Status status;
  EXPECT_THROW(reader.ReadNext(&instance, {}, &status), Error);
}

}  // namespace
}  // namespace ringfeed
