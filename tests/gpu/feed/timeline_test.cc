#include "ringfeed/devices/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ringfeed {
namespace {

TEST(TimelineTest, TheTraceHasATrackPerDeviceAndStartsAtZero) {
  Timeline timeline;
  timeline.Add({"copy", 1, 7, 5'002'000, 5'004'500});
  timeline.Add({"read", -1, 8, 5'001'000, 5'002'000});
  const auto trace = nlohmann::json::parse(timeline.ToChromeTrace());
  std::vector<nlohmann::json> spans;
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") spans.push_back(event);
    if (event["ph"] == "M") names.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"reader", "device 1", "read", "copy"}));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0]["ts"], 0.0);
  EXPECT_EQ(spans[1]["name"], "copy 7");
  EXPECT_EQ(spans[1]["pid"], 2);
  EXPECT_EQ(spans[1]["ts"], 1.0);
  EXPECT_EQ(spans[1]["dur"], 2.5);
  EXPECT_FALSE(trace.contains("otherData"));
}

TEST(TimelineTest, TheTraceSaysWhoseItIsAndWhenItBegan) {
  Timeline timeline;
  timeline.Add({"copy", 0, 0, 5'002'000, 5'004'500});
  timeline.Add({"read", -1, 0, 5'001'000, 5'002'000});
  const auto trace = nlohmann::json::parse(timeline.ToChromeTrace(
      {.host = "a\"b.c", .rank = 2, .ranks = 4, .realtime_offset_ns = 1'000'000'000}));
  EXPECT_EQ(trace["otherData"]["host"], "a?b.c");
  EXPECT_EQ(trace["otherData"]["rank"], 2);
  EXPECT_EQ(trace["otherData"]["ranks"], 4);
  EXPECT_EQ(trace["otherData"]["start_realtime_ns"], 1'005'001'000);
  EXPECT_EQ(trace["traceEvents"].size(), 6U);
}

TEST(TimelineTest, WhatIsBeyondItsLimitIsLeftOut) {
  Timeline timeline(2);
  for (std::uint64_t i = 0; i < 5; ++i) timeline.Add({"copy", 0, i, 0, 1});
  EXPECT_EQ(timeline.spans().size(), 2U);
  EXPECT_TRUE(nlohmann::json::accept(timeline.ToChromeTrace()));
  EXPECT_TRUE(nlohmann::json::accept(Timeline().ToChromeTrace()));
}

}  // namespace
}  // namespace ringfeed
