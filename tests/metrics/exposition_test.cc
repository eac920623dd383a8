#include "metrics/exposition.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "metrics/families.h"

namespace ringfeed {
namespace {

std::string FileText(const std::string& name) {
  std::ifstream file(std::string(RINGFEED_SOURCE) + "/" + name);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<prometheus::MetricFamily> TwoFamilies() {
  prometheus::MetricFamily counter;
  counter.name = "ringfeed_chain_read_bytes_total";
  counter.help = "Bytes";
  counter.type = prometheus::MetricType::Counter;
  counter.metric.resize(2);
  counter.metric[0].label = {{"chain", "0:a\"b\\c\nd"}};
  counter.metric[0].counter.value = 1'000'000;
  counter.metric[1].label = {{"chain", "1:e"}};
  counter.metric[1].counter.value = 0.25;
  prometheus::MetricFamily gauge;
  gauge.name = "ringfeed_chains";
  gauge.type = prometheus::MetricType::Gauge;
  gauge.metric.resize(1);
  gauge.metric[0].gauge.value = -2;
  return {counter, gauge};
}

TEST(ExpositionTest, OpenMetricsHasUnitsAndTheEndAndCountersWithoutTotalInTheirNames) {
  EXPECT_EQ(OpenMetricsText(TwoFamilies()),
            "# TYPE ringfeed_chain_read_bytes counter\n"
            "# UNIT ringfeed_chain_read_bytes bytes\n"
            "# HELP ringfeed_chain_read_bytes Bytes asked of the medium or the page cache\n"
            "ringfeed_chain_read_bytes_total{chain=\"0:a\\\"b\\\\c\\nd\"} 1000000\n"
            "ringfeed_chain_read_bytes_total{chain=\"1:e\"} 0.25\n"
            "# TYPE ringfeed_chains gauge\n"
            "# HELP ringfeed_chains Chains that were read, ended ones that are shown too\n"
            "ringfeed_chains -2\n"
            "# EOF\n");
  EXPECT_EQ(OpenMetricsText({}), "# EOF\n");
}

TEST(ExpositionTest, TheOlderTextHasTotalInTheNamesOfCounters) {
  const std::string text = PrometheusText(TwoFamilies());
  EXPECT_NE(text.find("# TYPE ringfeed_chain_read_bytes_total counter\n"), std::string::npos);
  EXPECT_NE(text.find("ringfeed_chain_read_bytes_total{chain=\"1:e\"} 0.25\n"), std::string::npos);
  EXPECT_EQ(text.find("# UNIT"), std::string::npos);
}

TEST(CatalogueTest, NamesSayTypeAndUnitAndAreThereOnce) {
  std::set<std::string_view> families;
  for (const MetricInfo& info : AllMetrics()) {
    const std::string name(info.name);
    EXPECT_TRUE(std::regex_match(name, std::regex("ringfeed_[a-z]+(_[a-z]+)*"))) << name;
    EXPECT_EQ(name.ends_with("_total"), info.type == prometheus::MetricType::Counter) << name;
    EXPECT_TRUE(families.insert(info.family()).second) << name;
    EXPECT_FALSE(info.help.empty()) << name;
    EXPECT_EQ(FindMetric(name), &info);
    const bool has_unit =
        name.find("seconds") != std::string::npos || name.find("bytes") != std::string::npos;
    EXPECT_EQ(!info.unit().empty(), has_unit) << name << ": a unit stands at the end";
  }
  EXPECT_EQ(FindMetric("ringfeed_nothing"), nullptr);
}

TEST(CatalogueTest, TheDocumentHasEachMetricAsItIsAndNoOther) {
  const std::string document = FileText("docs/METRICS.md");
  const std::regex row(R"(\| `(ringfeed_\w+)` \| (\w+) \| ([a-z]*) \| ([^|]*) \| )");
  std::set<std::string> listed;
  for (std::sregex_iterator at(document.begin(), document.end(), row), end; at != end; ++at) {
    const MetricInfo* const info = FindMetric((*at)[1].str());
    ASSERT_NE(info, nullptr) << (*at)[1] << " is no metric";
    listed.insert((*at)[1]);
    EXPECT_EQ((*at)[2].str(), info->type == prometheus::MetricType::Counter ? "counter" : "gauge")
        << info->name;
    EXPECT_EQ((*at)[3].str(), info->unit()) << info->name;
    std::string labels = (*at)[4];
    std::erase_if(labels, [](char c) { return c == '`' || c == ','; });
    EXPECT_EQ(labels, info->labels) << info->name;
  }
  for (const MetricInfo& info : AllMetrics()) {
    EXPECT_TRUE(listed.contains(std::string(info.name))) << info.name << " is not listed";
  }
}

TEST(CatalogueTest, WhatTheDashboardAndThePageDrawIsThere) {
  const std::regex word(R"(ringfeed_[a-z_]+)");
  const std::string dashboard = FileText("docs/grafana.json");
  std::size_t found = 0;
  for (std::sregex_iterator at(dashboard.begin(), dashboard.end(), word), end; at != end; ++at) {
    ++found;
    EXPECT_NE(FindMetric(at->str()), nullptr) << at->str();
  }
  EXPECT_GT(found, 10U);
  // The page leaves ringfeed_ away.
  const std::regex quoted(R"re("((?:chain|stage|device|feed|queue|build|start)_[a-z_]+)")re");
  const std::string page = FileText("metrics/page.html");
  found = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), quoted), end; at != end; ++at) {
    ++found;
    EXPECT_NE(FindMetric("ringfeed_" + (*at)[1].str()), nullptr) << (*at)[1];
  }
  EXPECT_GT(found, 10U);
}

}  // namespace
}  // namespace ringfeed
