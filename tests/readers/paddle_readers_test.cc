#include "ringfeed/paddle_readers.h"

#include <gtest/gtest.h>

#include <algorithm>

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
