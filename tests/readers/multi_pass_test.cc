#include <gtest/gtest.h>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class MultiPassTest : public PipelineTest {};

TEST_F(MultiPassTest, ABoundaryIsSeenBeforeItsFirstInstance) {
  const std::vector<std::string> files = MakeFiles(3, 40, 8, 200);
  const std::vector<Reader> chains = {
      MultiPass(OpenFiles(files, Options()), 3),
      MultiPass(Parse(OpenFiles(files, Options()), RawParser()), 3),
      MultiPass(Shuffle(OpenFiles(files, Options()), {.window = 16}), 3),
      MultiPass(Shuffle(Parse(OpenFiles(files, Options()), RawParser()), {.block = 16}), 3)};
  for (Reader reader : chains) {
    for (int round = 0; round < 2; ++round) {
      for (std::uint64_t row = 0; row < 360; ++row) {
        ASSERT_EQ(reader.NextPass(), row / 120) << row;
        ASSERT_TRUE(reader.HasNext());
        (void)reader.ReadNext();
      }
      EXPECT_EQ(reader.NextPass(), std::nullopt);
      EXPECT_FALSE(reader.HasNext());
      reader.ReInit();
    }
  }
}

TEST_F(MultiPassTest, BatchesBeginInThePassOfTheirFirstRow) {
  const std::vector<std::string> files = MakeFiles(2, 25, 8, 90);
  // Joined: 50 rows a pass in batches of 20 begin at rows 0, 20, 40, 60, 80.
  Reader joined = Batches(MultiPass(OpenFiles(files, Options()), 2), 20);
  std::vector<std::uint64_t> passes;
  while (const auto pass = joined.NextPass()) {
    passes.push_back(*pass);
    (void)joined.ReadNext();
  }
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 0, 0, 1, 1}));
  Reader apart = MultiPass(Batches(OpenFiles(files, Options()), 20), 2);
  passes.clear();
  while (const auto pass = apart.NextPass()) {
    passes.push_back(*pass);
    (void)apart.ReadNext();
  }
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 0, 0, 1, 1, 1}));
}

TEST_F(MultiPassTest, AFailureIsNoPass) {
  OpenOptions options = Options();
  Reader reader = OpenFiles({directory_.File("missing.tfrecord")}, options);
  EXPECT_EQ(reader.NextPass(), std::nullopt);
  EXPECT_TRUE(reader.HasNext());
}

}  // namespace
}  // namespace ringfeed
