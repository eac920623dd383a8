#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ringfeed/status.h"
#include "tools/feed/feed_plan.h"

namespace ringfeed::tools {
namespace {

class Environment {
 public:
  Environment(std::initializer_list<std::pair<const std::string, std::string>> variables)
      : variables_(variables) {}
  EnvironmentLookup lookup() const {
    return [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    };
  }

 private:
  const std::map<std::string, std::string> variables_;
};

const Environment kNothing({});
const Environment kTorchrun({{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"TORCHELASTIC_RUN_ID", "job"},
                             {"PMIX_NAMESPACE", "other"}});

TEST(RankOptionsTest, TheLauncherIsAskedWhereNothingWasSaid) {
  EXPECT_EQ(ChooseRank({}, kNothing.lookup()).world_size, 1);
  EXPECT_EQ(ChooseRank({}, kNothing.lookup()).source, "none");
  const Rank rank = ChooseRank({}, kTorchrun.lookup());
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.world_size, 4);
  EXPECT_EQ(rank.source, "torchrun");
}

TEST(RankOptionsTest, OptionsComeBeforeTheLauncher) {
  const Rank rank = ChooseRank({.rank = 1, .ranks = 2}, kTorchrun.lookup());
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.world_size, 2);
  EXPECT_EQ(rank.source, "options");
  EXPECT_EQ(ChooseRank({.ranks = 1}, kTorchrun.lookup()).world_size, 1);
}

TEST(RankOptionsTest, WhatMakesNoSenseIsRefused) {
  EXPECT_THROW(ChooseRank({.rank = 1}, kNothing.lookup()), Error);
  EXPECT_THROW(ChooseRank({.ranks = 2}, kNothing.lookup()), Error);
  EXPECT_THROW(ChooseRank({.rank = 2, .ranks = 2}, kNothing.lookup()), Error);
}

TEST(RankOptionsTest, ALaunchIsNamedByWhoSaidTheRank) {
  EXPECT_EQ(LaunchName(ChooseRank({}, kTorchrun.lookup()), kTorchrun.lookup()), "job");
  const Rank said = ChooseRank({.rank = 0, .ranks = 2}, kTorchrun.lookup());
  EXPECT_EQ(LaunchName(said, kTorchrun.lookup()), "");
  const Environment named({{"RINGFEED_RUN_ID", "seven"}});
  EXPECT_EQ(LaunchName(said, named.lookup()), "seven");
  Rank slurm;
  slurm.source = "Slurm";
  const Environment step({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_EQ(LaunchName(slurm, step.lookup()), "12.0");
}

}  // namespace
}  // namespace ringfeed::tools
