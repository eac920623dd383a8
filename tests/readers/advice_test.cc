#include "readers/chain/advice.h"

#include <gtest/gtest.h>

#include <string>

namespace ringfeed {
namespace {

/// Ten seconds of a chain with two threads whose consumer waited half of the time.
PipelineStats TenSeconds() {
  PipelineStats stats;
  stats.wall_s = 10;
  stats.stages = {{"read", 1, 1, "the medium"}, {"frame", 1, 0, ""},
                  {"plan", 1, 0, ""},           {"write", 1, 1, "a free batch slot"},
                  {"idle", 0, 9, ""},           {"deliver", 0, 5, "a batch"}};
  return stats;
}

StageStats& Stage(PipelineStats& stats, const std::string& name) {
  for (StageStats& stage : stats.stages) {
    if (stage.name == name) return stage;
  }
  return stats.stages.back();
}

ChainFacts Facts() {
  return {.parser = "example", .makes_more = false, .threads = 2, .cpus = 8, .input = ""};
}

std::string AdviceOf(PipelineStats stats, const ChainFacts& facts = Facts()) {
  ExplainSpeed(facts, &stats);
  EXPECT_EQ(stats.advice.empty(), stats.bottleneck.empty());
  return stats.advice;
}

bool Says(const std::string& advice, const std::string& words) {
  return advice.find(words) != std::string::npos;
}

TEST(AdviceTest, ALoopThatSeldomWaitsIsTheSlowEndWhateverTheThreadsDo) {
  PipelineStats stats = TenSeconds();
  stats.stages.back().wait_s = 0.2;
  Stage(stats, "write").busy_s = 9;
  const std::string advice = AdviceOf(stats);
  EXPECT_TRUE(Says(advice, "waited for data 2 % of the time")) << advice;
}

TEST(AdviceTest, EachStageHasWordsOfItsOwn) {
  constexpr std::pair<const char*, const char*> kSentences[] = {
      {"read", "page cache"},
      {"frame", "checksums"},
      {"plan", "The order"},
      {"write", "The parser \"example\""}};
  for (const auto& [name, words] : kSentences) {
    PipelineStats stats = TenSeconds();
    Stage(stats, name).busy_s = 8;
    const std::string advice = AdviceOf(stats);
    EXPECT_TRUE(Says(advice, words)) << advice;
    EXPECT_EQ(advice.back(), '.');
  }
}

TEST(AdviceTest, WaitingIsNamedByWhatIsWaitedFor) {
  PipelineStats stats = TenSeconds();
  Stage(stats, "read").wait_s = 9;
  EXPECT_TRUE(Says(AdviceOf(stats), "the disk"));
  stats.io.push_back({"a", IoPath::kUring, true, false, ""});
  EXPECT_TRUE(Says(AdviceOf(stats), "(uring)"));
  EXPECT_TRUE(Says(AdviceOf(stats), "compressed"));
  stats.stages.insert(stats.stages.begin() + 1, {"decompress", 1, 0, ""});
  EXPECT_FALSE(Says(AdviceOf(stats), "compressed")) << "it is compressed already";
  ChainFacts facts = Facts();
  facts.input = "whoever writes the stream";
  EXPECT_TRUE(Says(AdviceOf(stats, facts), "wait for whoever writes the stream"));
  stats = TenSeconds();
  Stage(stats, "write").wait_s = 9;
  stats.stages.back().wait_s = 6;
  EXPECT_TRUE(Says(AdviceOf(stats), "raise the slots"));
}

TEST(AdviceTest, ThreadsAreToldOnlyIfThereAreCpusForMore) {
  PipelineStats stats = TenSeconds();
  Stage(stats, "frame").busy_s = 8;
  EXPECT_TRUE(Says(AdviceOf(stats), "there are 2 on 8 CPUs"));
  ChainFacts facts = Facts();
  facts.threads = 8;
  EXPECT_TRUE(Says(AdviceOf(stats, facts), "more CPUs"));
}

TEST(AdviceTest, WhatFollowsTheParserIsBlamedInItsPlace) {
  PipelineStats stats = TenSeconds();
  Stage(stats, "write").busy_s = 8;
  ChainFacts facts = Facts();
  facts.makes_more = true;
  EXPECT_TRUE(Says(AdviceOf(stats, facts), "Map"));
  facts = Facts();
  facts.parser.clear();
  EXPECT_TRUE(Says(AdviceOf(stats, facts), "The copy into batches"));
}

TEST(AdviceTest, AUsersFunctionIsNamedAndNotTheParserInFrontOfIt) {
  PipelineStats stats = TenSeconds();
  Stage(stats, "write").busy_s = 8;
  ChainFacts facts = Facts();
  facts.function = "mine::Words::Parse";
  facts.parser.clear();
  EXPECT_TRUE(Says(AdviceOf(stats, facts), "mine::Words::Parse takes most"));
}

TEST(AdviceTest, TheFirstBatchSaysNothingOfTheLoop) {
  PipelineStats stats = TenSeconds();
  stats.batches = 100;
  stats.first_batch_s = stats.stages.back().wait_s;
  EXPECT_TRUE(Says(AdviceOf(stats), "waited for data 0 % of the time"));
}

TEST(AdviceTest, FullSlotsAreTheLoopsIfItSeldomWaits) {
  PipelineStats stats = TenSeconds();
  Stage(stats, "write").wait_s = 9;
  stats.stages.back().wait_s = 2;
  EXPECT_TRUE(Says(AdviceOf(stats), "waited for data 20 % of the time"));
}

TEST(AdviceTest, NoStageIsBlamedThatExplainsNothing) {
  PipelineStats stats = TenSeconds();
  for (StageStats& stage : stats.stages) {
    if (stage.name != "idle" && stage.name != "deliver") stage.busy_s = stage.wait_s = 0.01;
  }
  EXPECT_TRUE(Says(AdviceOf(stats), "No stage is the slow end"));
}

TEST(AdviceTest, WhatThereIsAlreadyIsNotAdvised) {
  PipelineStats stats = TenSeconds();
  Stage(stats, "read").busy_s = 8;
  stats.io.push_back({"a", IoPath::kMmap, false, false, ""});
  EXPECT_FALSE(Says(AdviceOf(stats), "or files that are mapped"));
  ChainFacts facts = Facts();
  facts.input = "your own reader";
  EXPECT_TRUE(Says(AdviceOf(stats, facts), "Your own reader takes most"));
}

TEST(AdviceTest, NothingIsSaidOfNothing) {
  PipelineStats stats;
  stats.stages = {{"read", 0, 0, ""}, {"write", 0, 0, ""}, {"deliver", 0, 0, ""}};
  EXPECT_EQ(AdviceOf(stats), "");
}

}  // namespace
}  // namespace ringfeed
