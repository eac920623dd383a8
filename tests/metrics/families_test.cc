// What of a process is counted, by programs that read, feed and wait.
#include "metrics/families.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/live/watching.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/metrics.h"
#include "ringfeed/parsers.h"
#include "ringfeed/queue/blocking_queue.h"
#include "ringfeed/tensor.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

constexpr std::size_t kRecords = 1000;

/// By name and labels, "ringfeed_x{chain=0:a,stage=read}".
using Figures = std::map<std::string, double>;

Figures Counted() {
  Figures figures;
  for (const prometheus::MetricFamily& family : CollectMetrics({})) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::string key = family.name;
      for (const auto& label : metric.label) key += "," + label.name + "=" + label.value;
      const bool counts = family.type == prometheus::MetricType::Counter;
      figures[key] = counts ? metric.counter.value : metric.gauge.value;
    }
  }
  return figures;
}

/// The process is watched, as by a program that calls MetricsNow.
class FamiliesTest : public testing::Test {
 protected:
  void SetUp() override {
    WatchThisProcess();
    // Of its own: another test of these may run beside it.
    folder_ = testing::TempDir() + "/families-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/families.tfrecord";
    const std::vector<std::size_t> sizes(kRecords, 64);
    WriteTfRecords(path_, 0, sizes);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Reader Batches(std::uint64_t passes = 1) const {
    return Batch(MultiPass(Parse(OpenFiles({path_}), RawParser()), passes), {.size = 100});
  }
  std::string folder_;
  std::string path_;
};

std::string Chain(const std::string& name) { return name + ",chain=0:families.tfrecord"; }

TEST_F(FamiliesTest, AChainIsCountedWhileItLivesAndSeenAsEndedBehindIt) {
  {
    Reader batches = Batches();
    EXPECT_FALSE(Counted().contains(Chain("ringfeed_chain_batches_total"))) << "nothing was read";
    while (batches.HasNext()) (void)batches.ReadNext();
    const Figures live = Counted();
    EXPECT_EQ(live.at(Chain("ringfeed_chain_batches_total")), 10);
    EXPECT_EQ(live.at(Chain("ringfeed_chain_records_total")), kRecords);
    EXPECT_EQ(live.at(Chain("ringfeed_chain_passes_total")), 1);
    EXPECT_EQ(live.at(Chain("ringfeed_chain_ended")), 0);
    EXPECT_EQ(live.at(Chain("ringfeed_chain_files_total") + ",fate=read"), 1);
    EXPECT_TRUE(live.contains(Chain("ringfeed_stage_busy_seconds_total") + ",stage=read"));
    EXPECT_TRUE(live.contains(Chain("ringfeed_lane_credits") + ",lane=0"));
    EXPECT_EQ(live.at(Chain("ringfeed_chain_info") + ",source=" + path_ + ",rank="), 1);
  }
  const Figures ended = Counted();
  EXPECT_EQ(ended.at(Chain("ringfeed_chain_ended")), 1);
  EXPECT_EQ(ended.at(Chain("ringfeed_chain_batches_total")), 10) << "the last figures stay";
  Reader next = Batches();
  (void)next.ReadNext();
  EXPECT_EQ(Counted().at(Chain("ringfeed_chain_ended")), 0) << "the next one has the number";
}

TEST_F(FamiliesTest, CountersNeverFallWhateverTheChainDoes) {
  Reader batches = Batches(3);
  Figures before;
  for (int start = 0; start < 4; ++start) {
    Instance batch;
    while (batches.TryReadNext(&batch) == ReadResult::kRecord) {
      const Figures now = Counted();
      for (const auto& [name, value] : before) {
        if (name.find("_total") == std::string::npos) continue;
        ASSERT_TRUE(now.contains(name)) << name;
        EXPECT_GE(now.at(name), value) << name;
      }
      before = now;
    }
    start % 2 == 0 ? batches.ReInit() : batches.SeekTo(7);
  }
  EXPECT_GE(before.at(Chain("ringfeed_chain_records_total")), 4 * kRecords);
  batches.Close();
  EXPECT_EQ(Counted().at(Chain("ringfeed_chain_ended")), 1);
}

TEST_F(FamiliesTest, AFeedIsCountedByItsDevices) {
  {
    DeviceFeed feed(Batches(), {.backend = OpenDevices("emu:2")});
    while (feed.Next()) {
    }
    const Figures live = Counted();
    for (const char* device : {"0", "1"}) {
      const std::string of = std::string(",feed=0,device=") + device;
      EXPECT_EQ(live.at("ringfeed_device_batches_total" + of), 5);
      EXPECT_EQ(live.at("ringfeed_device_batches_ahead" + of), 0);
      EXPECT_EQ(live.at("ringfeed_device_slots" + of), 3);
      EXPECT_GT(live.at("ringfeed_device_copied_bytes_total" + of), 0);
    }
    EXPECT_EQ(live.at("ringfeed_feed_ended,feed=0"), 0);
  }
  EXPECT_EQ(Counted().at("ringfeed_feed_ended,feed=0"), 1);
}

TEST_F(FamiliesTest, AQueueIsCountedWhileItLives) {
  LoDTensorBlockingQueue queue(4, {{.name = "x", .dtype = kInt64, .dims = {1}}});
  const std::int64_t one = 1;
  Instance instance;
  instance.push_back(MakeTensor({1}, std::vector<std::int64_t>{one}));
  ASSERT_TRUE(queue.Push(instance));
  const Figures figures = Counted();
  EXPECT_EQ(figures.at("ringfeed_queue_items,queue=0"), 1);
  EXPECT_EQ(figures.at("ringfeed_queue_capacity,queue=0"), 4);
  EXPECT_EQ(figures.at("ringfeed_queue_closed,queue=0"), 0);
  EXPECT_EQ(figures.at("ringfeed_queue_info,queue=0,slot=x"), 1);
}

TEST_F(FamiliesTest, LookingNeitherKeepsNorHindersWhatIsReadRestartedAndClosed) {
  // It ends by its stop, also where something below throws.
  const std::jthread looks([](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_TRUE(MetricsNow().ends_with("# EOF\n"));
  });
  for (int round = 0; round < StressRounds(20); ++round) {
    Reader batches = Batches(2);
    for (int i = 0; i < 5; ++i) (void)batches.ReadNext();
    if (round % 3 == 0) batches.ReInit();
    (void)batches.ReadNext();
    if (round % 3 == 1) batches.Close();
    DeviceFeed feed(Batches(), {.backend = OpenDevices("emu:2")});
    (void)feed.Next();
    if (round % 2 == 0) feed.ReInit();
    (void)feed.Next();
    LoDTensorBlockingQueue queue(4, {{.name = "x", .dtype = kInt64, .dims = {1}}});
  }
}

/// The families of a process that has a chain, a feed and a queue: all that there are.
class AllFamiliesTest : public FamiliesTest {
 protected:
  void SetUp() override {
    FamiliesTest::SetUp();
    Reader batches = Batches();
    DeviceFeed feed(Batches(), {.backend = OpenDevices("emu:1")});
    const LoDTensorBlockingQueue queue(4, {{.name = "x", .dtype = kInt64, .dims = {1}}});
    (void)batches.ReadNext();
    (void)feed.Next();
    for (prometheus::MetricFamily& family : CollectMetrics({})) {
      EXPECT_TRUE(families_.emplace(family.name, std::move(family)).second) << family.name;
    }
  }
  static std::string FileText(const std::string& name) {
    std::ifstream file(std::string(RINGFEED_SOURCE) + "/" + name);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::map<std::string, prometheus::MetricFamily> families_;
};

TEST_F(AllFamiliesTest, NamesSayTypeAndUnitAndAreThereOnce) {
  std::set<std::string_view> names;
  for (const auto& [name, family] : families_) {
    EXPECT_TRUE(std::regex_match(name, std::regex("ringfeed_[a-z]+(_[a-z]+)*"))) << name;
    EXPECT_EQ(name.ends_with("_total"), family.type == prometheus::MetricType::Counter) << name;
    EXPECT_TRUE(names.insert(BaseNameOf(name)).second) << name;
    EXPECT_FALSE(family.help.empty()) << name;
    const bool has_unit =
        name.find("seconds") != std::string::npos || name.find("bytes") != std::string::npos;
    EXPECT_EQ(!UnitOf(name).empty(), has_unit) << name << ": a unit stands at the end";
  }
}

TEST_F(AllFamiliesTest, TheDocumentHasEachMetricAsItIsAndNoOther) {
  const std::string document = FileText("docs/METRICS.md");
  const std::regex row(R"(\| `(ringfeed_\w+)` \| (\w+) \| ([a-z]*) \| ([^|]*) \| )");
  std::set<std::string> listed;
  for (std::sregex_iterator at(document.begin(), document.end(), row), end; at != end; ++at) {
    const std::string name = (*at)[1];
    ASSERT_TRUE(families_.contains(name)) << name << " is no metric";
    const prometheus::MetricFamily& family = families_.at(name);
    listed.insert(name);
    EXPECT_EQ((*at)[2].str(), family.type == prometheus::MetricType::Counter ? "counter" : "gauge")
        << name;
    EXPECT_EQ((*at)[3].str(), UnitOf(name)) << name;
    std::string labels;
    for (const auto& label : family.metric.front().label) {
      labels += (labels.empty() ? "`" : ", `") + label.name + "`";
    }
    EXPECT_EQ((*at)[4].str(), labels) << name;
  }
  for (const auto& [name, family] : families_) {
    EXPECT_TRUE(listed.contains(name)) << name << " is not listed";
  }
}

TEST_F(AllFamiliesTest, WhatTheDashboardAndThePageDrawIsThere) {
  const std::regex word(R"(ringfeed_[a-z_]+)");
  const std::string dashboard = FileText("docs/grafana.json");
  std::size_t found = 0;
  for (std::sregex_iterator at(dashboard.begin(), dashboard.end(), word), end; at != end; ++at) {
    ++found;
    EXPECT_TRUE(families_.contains(at->str())) << at->str();
  }
  EXPECT_GT(found, 10U);
  // The page leaves ringfeed_ away.
  const std::regex quoted(R"re("((?:chain|stage|device|feed|queue|build|start)_[a-z_]+)")re");
  const std::string page = FileText("metrics/page.html");
  found = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), quoted), end; at != end; ++at) {
    ++found;
    EXPECT_TRUE(families_.contains("ringfeed_" + (*at)[1].str())) << (*at)[1];
  }
  EXPECT_GT(found, 10U);
}

}  // namespace
}  // namespace ringfeed
