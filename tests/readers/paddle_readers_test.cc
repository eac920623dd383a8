#include "ringfeed/compat/paddle_readers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ringfeed/compat/random_data.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

class PaddleReadersTest : public PipelineTest {};

TEST_F(PaddleReadersTest, EachNameIsTheChainThatItStandsFor) {
  const std::vector<std::string> files = MakeFiles(4, 33, 8, 500);
  const auto open = [&] { return Parse(OpenFiles(files, Options()), RawParser()); };
  EXPECT_TRUE(Drain(ShuffleReader(open(), 20, 3)) ==
              Drain(Shuffle(open(), {.block = 20, .seed = 3})));
  EXPECT_TRUE(Drain(BatchReader(open(), 10)) == Drain(Batch(open(), {.size = 10})));
  EXPECT_EQ(Drain(BatchReader(open(), 10, true)).ids.size(), 130U);
  EXPECT_TRUE(Drain(MultiPassReader(open(), 3)) == Drain(MultiPass(open(), 3)));
  ReaderBase batches = DoubleBufferReader(BatchReader(open(), 10));
  EXPECT_EQ(Drain(batches).ids.size(), 132U);
  const auto second = [](const Instance& input, Instance* output) { output->push_back(input[1]); };
  const std::vector<SlotSpec> slots = {{"y", kInt64, {1, 1}, 0}};
  const auto random = [&] {
    return RandomData({{"x", kFloat32, {1, 2}, 0}, {"y", kInt64, {1, 1}, 0}}, {.high = 1000},
                      Options());
  };
  Reader preprocessed = Preprocessor(random(), slots, second);
  Reader same = Preprocess(random(), slots, second);
  for (int i = 0; i < 20; ++i) {
    const Instance one = preprocessed.ReadNext();
    const Instance other = same.ReadNext();
    EXPECT_EQ(one[0].Values<std::int64_t>()[0], other["y"].Values<std::int64_t>()[0]);
  }
}

TEST_F(PaddleReadersTest, AShuffleOfAnySizeGivesEverythingOnceAndOfOneTheOrderItself) {
  const std::vector<std::string> files = MakeFiles(1, 50, 8, 500);
  for (const std::size_t size : {1U, 10U, 100U}) {
    const Drained found = Drain(ShuffleReader(OpenFiles(files, Options()), size, 3));
    EXPECT_EQ(found.ids == Numbers(50), size == 1) << size;
    EXPECT_EQ(Sorted(found.ids), Numbers(50)) << size;
  }
  EXPECT_THROW(ShuffleReader(OpenFiles(files, Options()), 0), Error);
}

TEST_F(PaddleReadersTest, ShuffledRandomDataComeInWholeBatchesThroughADoubleBuffer) {
  Reader random =
      RandomData({{"x", kFloat32, {1, 2}, 0}, {"y", kFloat32, {1, 1}, 0}}, {}, Options());
  Reader reader = DoubleBufferReader(BatchReader(ShuffleReader(random, 7), 10));
  for (int i = 0; i < 99; ++i) {
    const Instance batch = reader.ReadNext();
    ASSERT_EQ(batch.size(), 2U);
    EXPECT_EQ(batch[0].shape, (Shape{10, 2}));
    EXPECT_EQ(batch[1].shape, (Shape{10, 1}));
  }
}

TEST_F(PaddleReadersTest, ManyFilesAreReadInTestModeInTheirOrderElseByWhoeverIsFree) {
  const std::vector<std::string> files = MakeFiles(9, 20, 8, 500);
  EXPECT_EQ(Drain(MultipleReader(files, true, 0, Options())).ids, Numbers(180));
  std::vector<std::uint64_t> ids = Drain(MultipleReader(files, false, 3, Options())).ids;
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, Numbers(180));
}

}  // namespace
}  // namespace ringfeed
