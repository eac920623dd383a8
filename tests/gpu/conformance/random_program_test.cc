// The programs that backends are tested with: that their waits are enough, and are needed.

#include "tests/gpu/conformance/random_program.h"

#include <gtest/gtest.h>

namespace ringfeed {
namespace {

ProgramShape ShapeOf(std::uint64_t seed) { return {1 + seed % 2, 2 + seed % 3, 4 + seed % 5, 150}; }

TEST(RandomProgram, GivesTheSameInEveryOrderThatItsEventsAllow) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomProgram program(ShapeOf(seed), seed);
    const auto result = program.Result();
    for (std::uint64_t order = 0; order < 5; ++order) {
      ASSERT_EQ(program.ResultInAnotherOrder(order, false), result) << seed << ", " << order;
    }
  }
}

TEST(RandomProgram, NeedsItsWaits) {
  int others = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomProgram program(ShapeOf(seed), seed);
    if (program.ResultInAnotherOrder(seed, true) != program.Result()) ++others;
  }
  EXPECT_GE(others, 38);
}

TEST(RandomProgram, IsTheSameForTheSameSeed) {
  const RandomProgram program(ShapeOf(3), 3);
  EXPECT_EQ(program.Result(), RandomProgram(ShapeOf(3), 3).Result());
  EXPECT_NE(program.Result(), RandomProgram(ShapeOf(3), 9).Result());
}

TEST(RandomProgram, WorksInAllMemories) {
  const RandomProgram program(ShapeOf(5), 5);
  ASSERT_EQ(program.shape().devices, 2u);
  for (std::size_t memory = 0; memory <= 2; ++memory) {
    EXPECT_NE(program.Result()[memory], program.InitialBytes(memory)) << memory;
  }
}

}  // namespace
}  // namespace ringfeed
