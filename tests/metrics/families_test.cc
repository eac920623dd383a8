// What of a process is counted, by programs that read, feed and wait.
#include "metrics/families.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/live/watching.h"
#include "metrics/exposition.h"
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

TEST_F(FamiliesTest, EveryMetricIsSaidBySomething) {
  Reader batches = Batches();
  DeviceFeed feed(Batches(), {.backend = OpenDevices("emu:1")});
  const LoDTensorBlockingQueue queue(4, {{.name = "x", .dtype = kInt64, .dims = {1}}});
  (void)batches.ReadNext();
  (void)feed.Next();
  std::vector<std::string> names;
  for (const prometheus::MetricFamily& family : CollectMetrics({})) names.push_back(family.name);
  std::vector<std::string> wanted;
  for (const MetricInfo& info : AllMetrics()) wanted.emplace_back(info.name);
  EXPECT_EQ(names, wanted);
}

}  // namespace
}  // namespace ringfeed
