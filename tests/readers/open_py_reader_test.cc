#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/compat/py_reader.h"
#include "tests/queue/numbered_instance.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class OpenPyReaderTest : public PipelineTest {
 protected:
  OpenPyReaderTest() { holder_->InitOnce(4, NumberSlots()); }

  static QueueGenerator NumbersFrom(std::int64_t first, std::int64_t count) {
    return [first, count](LoDTensorBlockingQueue& queue, const std::stop_token&) {
      for (std::int64_t i = first; i < first + count; ++i) {
        if (!queue.Push(Numbered(i))) return;
      }
    };
  }

  std::shared_ptr<LoDTensorBlockingQueueHolder> holder_ =
      std::make_shared<LoDTensorBlockingQueueHolder>();
};

TEST_F(OpenPyReaderTest, DeliversWholeInstancesInOrderWithTheirTensorsUncopied) {
  Reader reader = OpenPyReader(holder_, Options());
  const Instance kept = Numbered(-1);
  const QueueProducer producer(holder_->GetQueue(),
                               [&](LoDTensorBlockingQueue& queue, const std::stop_token& stop) {
                                 queue.Push(kept);
                                 NumbersFrom(0, 50)(queue, stop);
                               });
  const Instance first = reader.ReadNext();
  EXPECT_EQ(first[0].data, kept[0].data);
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(NumberOf(reader.ReadNext()), i);
  EXPECT_FALSE(reader.HasNext());
}

TEST_F(OpenPyReaderTest, ADoubleBufferNestsOnItWithAndWithoutABatchBetween) {
  Reader reader = DoubleBuffer(OpenPyReader(holder_, Options()));
  const QueueProducer producer(holder_->GetQueue(), NumbersFrom(0, 50));
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(NumberOf(reader.ReadNext()), i);
  EXPECT_FALSE(reader.HasNext());
  Reader batches =
      Batch(DoubleBuffer(Shuffle(OpenPyReader(holder_, Options()), {.block = 4})), {.size = 3});
  holder_->ReOpen();
  const QueueProducer again(holder_->GetQueue(), NumbersFrom(0, 30));
  std::int64_t rows = 0;
  while (batches.HasNext()) rows += batches.ReadNext().Rows();
  EXPECT_EQ(rows, 30);
}

TEST_F(OpenPyReaderTest, BatchesJoinInstancesAndMergeTheirSequences) {
  Reader reader = Batch(OpenPyReader(holder_, Options()), {.size = 3});
  const QueueProducer producer(holder_->GetQueue(), NumbersFrom(0, 3));
  const Instance batch = reader.ReadNext();
  const auto numbers = batch[0].Values<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(numbers.begin(), numbers.end()),
            (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(batch[1].shape, (Shape{6}));
  ASSERT_EQ(batch[1].lod.size(), 1U);
  EXPECT_EQ(std::vector<std::int64_t>(batch[1].lod[0].begin(), batch[1].lod[0].end()),
            (std::vector<std::int64_t>{0, 2, 4, 6}));
}

TEST_F(OpenPyReaderTest, BreakingOffLosesNothingOfTheNewPassAndDeliversNothingOfTheOld) {
  Reader reader = OpenPyReader(holder_, Options());
  for (std::int64_t pass = 0; pass < 20; ++pass) {
    const std::int64_t first = 1000 * pass;
    const QueueProducer producer(holder_->GetQueue(), NumbersFrom(first, 30));
    for (std::int64_t i = first; i <= first + pass; ++i) {
      ASSERT_EQ(NumberOf(reader.ReadNext()), i);
    }
    reader.ReInit();
  }
}

TEST_F(OpenPyReaderTest, BreakingOffAtOnceOrBehindTheEndLeavesTheNextPassWhole) {
  Reader reader = OpenPyReader(holder_, Options());
  std::int64_t first = 0;
  for (const std::int64_t taken : {2, 0, 100, 0, 2}) {
    first += 1000;
    {
      const QueueProducer producer(holder_->GetQueue(), NumbersFrom(first, 30));
      Instance instance;
      std::int64_t read = 0;
      while (read < taken && reader.TryReadNext(&instance) == ReadResult::kRecord) {
        ASSERT_EQ(NumberOf(instance), first + read++);
      }
      EXPECT_EQ(read, std::min<std::int64_t>(taken, 30));
      reader.ReInit();
    }
    first += 1000;
    const QueueProducer producer(holder_->GetQueue(), NumbersFrom(first, 30));
    for (std::int64_t i = first; i < first + 30; ++i) ASSERT_EQ(NumberOf(reader.ReadNext()), i);
    EXPECT_FALSE(reader.HasNext());
    reader.ReInit();
  }
}

TEST_F(OpenPyReaderTest, TwoReadersSideBySideStopAtTheShorterOneEachTime) {
  const auto other_holder = std::make_shared<LoDTensorBlockingQueueHolder>();
  other_holder->InitOnce(4, NumberSlots());
  Reader one = OpenPyReader(holder_, Options());
  Reader other = OpenPyReader(other_holder, Options());
  for (const auto& [n, m] : {std::pair(10, 20), std::pair(20, 10), std::pair(10, 10)}) {
    for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
      const QueueProducer producer(holder_->GetQueue(), NumbersFrom(100 * epoch, n));
      const QueueProducer other_producer(other_holder->GetQueue(), NumbersFrom(-100 * epoch, m));
      int both = 0;
      Instance left;
      Instance right;
      while (one.TryReadNext(&left) == ReadResult::kRecord &&
             other.TryReadNext(&right) == ReadResult::kRecord) {
        ASSERT_EQ(NumberOf(left), 100 * epoch + both);
        ASSERT_EQ(NumberOf(right), -100 * epoch + both);
        ++both;
      }
      EXPECT_EQ(both, 10);
      one.ReInit();
      other.ReInit();
    }
  }
}

TEST_F(OpenPyReaderTest, TheLastShortBatchComesUnlessItIsDropped) {
  for (const std::size_t samples : {160U, 200U, 159U}) {
    for (const bool drop : {false, true}) {
      const auto holder = std::make_shared<LoDTensorBlockingQueueHolder>();
      holder->InitOnce(4, NumberSlots());
      Reader reader = Batch(OpenPyReader(holder, Options()), {.size = 32, .drop_remainder = drop});
      const QueueProducer producer(holder->GetQueue(),
                                   NumbersFrom(0, static_cast<std::int64_t>(samples)));
      std::vector<std::size_t> rows;
      Instance batch;
      while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
        rows.push_back(batch[0].Values<std::int64_t>().size());
      }
      std::vector<std::size_t> want(samples / 32, 32);
      if (!drop && samples % 32 != 0) want.push_back(samples % 32);
      EXPECT_EQ(rows, want) << samples;
    }
  }
}

TEST_F(OpenPyReaderTest, AnInstanceOfAnotherShapeEndsTheStreamWithTheNameOfItsSlot) {
  Reader reader = Batch(OpenPyReader(holder_, Options()), {.size = 2});
  const QueueProducer producer(holder_->GetQueue(),
                               [](LoDTensorBlockingQueue& queue, const std::stop_token&) {
                                 queue.Push(Numbered(0));
                                 queue.Push(Numbered(1));
                                 Instance ragged = Numbered(2);
                                 ragged[1].shape = {1, 2};
                                 queue.Push(std::move(ragged));
                               });
  Instance batch;
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord) << "what is good comes first";
  EXPECT_EQ(batch[0].Values<std::int64_t>()[0], 0);
  EXPECT_EQ(reader.TryReadNext(&batch), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(reader.status().message().find("\"words\""), std::string::npos)
      << reader.status().ToString();
}

TEST_F(OpenPyReaderTest, AThrowingProducerEndsTheStreamWithItsErrorAtTheConsumer) {
  Reader reader = Batch(OpenPyReader(holder_, Options()), {.size = 3});
  const QueueProducer producer(holder_->GetQueue(),
                               [](LoDTensorBlockingQueue&, const std::stop_token&) {
                                 throw std::runtime_error("no more milk");
                               });
  EXPECT_THROW(reader.ReadNext(), Error);
  EXPECT_NE(reader.status().message().find("no more milk"), std::string::npos);
}

TEST_F(OpenPyReaderTest, NeedsAHolderThatIsInited) {
  EXPECT_THROW(OpenPyReader(std::make_shared<LoDTensorBlockingQueueHolder>()), Error);
  EXPECT_THROW(OpenPyReader(nullptr), Error);
}

}  // namespace
}  // namespace ringfeed
