#include "metrics/exposition.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringfeed {
namespace {

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
  gauge.help = "Chains";
  gauge.type = prometheus::MetricType::Gauge;
  gauge.metric.resize(1);
  gauge.metric[0].gauge.value = -2;
  return {counter, gauge};
}

TEST(ExpositionTest, OpenMetricsHasUnitsAndTheEndAndCountersWithoutTotalInTheirNames) {
  EXPECT_EQ(OpenMetricsText(TwoFamilies()),
            "# TYPE ringfeed_chain_read_bytes counter\n"
            "# UNIT ringfeed_chain_read_bytes bytes\n"
            "# HELP ringfeed_chain_read_bytes Bytes\n"
            "ringfeed_chain_read_bytes_total{chain=\"0:a\\\"b\\\\c\\nd\"} 1000000\n"
            "ringfeed_chain_read_bytes_total{chain=\"1:e\"} 0.25\n"
            "# TYPE ringfeed_chains gauge\n"
            "# HELP ringfeed_chains Chains\n"
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

}  // namespace
}  // namespace ringfeed
