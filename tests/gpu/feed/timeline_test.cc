#include "ringfeed/timeline.h"

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
  EXPECT_EQ(spans[0]["name"], "copy 7");
  EXPECT_EQ(spans[0]["pid"], 2);
  EXPECT_EQ(spans[0]["ts"], 1.0);
  EXPECT_EQ(spans[0]["dur"], 2.5);
  EXPECT_EQ(spans[1]["ts"], 0.0);
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
