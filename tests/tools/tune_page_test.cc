// What the report of `ringfeed tune` says, and the data in its page.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tools/report.h"
#include "tools/tune/tune_report.h"

namespace ringfeed::tools {
namespace {

TuneReport SomeReport() {
  TuneReport report;
  report.machine = "Z80, 1 CPU";
  report.format = "tfrecord";
  report.command = "ringfeed feed 'a<b>&\"c\".tfrecord'";
  report.result.before.gb_per_s = 1;
  report.result.after.gb_per_s = 2;
  report.result.after.advice = "Framing takes most of the threads' time: more CPUs would move it.";
  report.result.after.stages = {{"frame", 2, 1, "the medium"}};
  report.result.best.threads = 2;
  report.result.gain = {2, 1.9, 2.1};
  report.result.pairs = 5;
  report.result.verdict = "it was faster";
  TriedSettings tried{{"threads", "2", {.threads = 2}}, {1.9, 2.1}, {}};
  report.result.values = {tried};
  report.limits = {{"read", "the files", 4, {}}, {"copy", "memory", 12, {}}};
  return report;
}

std::string AllOf(const TuneReport& report) {
  std::string all;
  for (const std::string& sentence : Findings(report)) all += sentence + "\n";
  return all;
}

TEST(TuneReportTest, SaysTheGainTheDistanceToTheMachineAndWhatWouldMoveIt) {
  const std::string all = AllOf(SomeReport());
  EXPECT_NE(all.find("--threads 2 the feed is 2.00 (1.90 to 2.10) times"), std::string::npos);
  EXPECT_NE(all.find("67 % of the 3.00 GB/s"), std::string::npos) << all;
  EXPECT_NE(all.find("more CPUs would move it"), std::string::npos) << all;
}

TEST(TuneReportTest, ADiskWorksBesideTheLoops) {
  TuneReport report = SomeReport();
  EXPECT_DOUBLE_EQ(MachineRate(report), 3);  // 1 / (1/4 + 1/12)
  report.cold = true;
  EXPECT_DOUBLE_EQ(MachineRate(report), 4);
  report.limits[1].gb_per_s = 3;
  EXPECT_DOUBLE_EQ(MachineRate(report), 3);
  report.limits[0].status = Status(StatusCode::kUnsupported, "no");
  EXPECT_DOUBLE_EQ(MachineRate(report), 3);
  report.limits.push_back({"link", "pinned memory to the device", 2, {}});
  EXPECT_DOUBLE_EQ(MachineRate(report), 2) << "which works beside the loops";
  report.limits.clear();
  EXPECT_DOUBLE_EQ(MachineRate(report), 0);
}

TEST(TuneReportTest, TheDefaultsStayInWords) {
  TuneReport report = SomeReport();
  report.result.best = {};
  EXPECT_NE(AllOf(report).find("The defaults stay: it was faster."), std::string::npos);
}

// The data in the page.
Json DataOf(const std::string& page) {
  constexpr std::string_view kBegin = R"(<script id="report" type="application/json">)";
  const std::size_t begin = page.find(kBegin) + kBegin.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(TunePageTest, NamesAreData) {
  TuneReport report = SomeReport();
  report.command = "ringfeed feed '</script><!--<b>&\"c\".tfrecord'";
  const std::string page = TunePage(report);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  EXPECT_EQ(DataOf(page)["command"], report.command);
}

TEST(TunePageTest, BytesThatAreNoTextAreReplaced) {
  TuneReport report = SomeReport();
  report.command = "ringfeed feed \xff.tfrecord";
  EXPECT_EQ(DataOf(TunePage(report))["command"], "ringfeed feed \xef\xbf\xbd.tfrecord");
}

TEST(TunePageTest, ItsDataAreTheReportForMachinesAndTheLimits) {
  const TuneReport report = SomeReport();
  const Json data = DataOf(TunePage(report));
  const Json for_machines = TuneJson(report);
  for (const auto& [key, value] : for_machines.items()) EXPECT_EQ(data[key], value) << key;
  EXPECT_DOUBLE_EQ(data["plain_loops"], MachineRate(report));
}

TEST(TunePageTest, HasNothingOfWhatWasNotMeasured) {
  const Json data = DataOf(TunePage(TuneReport()));
  EXPECT_EQ(data["plain_loops"], 0);
  EXPECT_EQ(data.dump().find("null"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed::tools
