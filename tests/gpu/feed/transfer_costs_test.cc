#include "ringfeed/devices/transfer_costs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

#include "ringfeed/status.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

class TransferCostsTest : public testing::Test {
 protected:
  std::string WriteText(const std::string& text) const {
    const std::string path = folder_.path() + "/costs.json";
    std::ofstream(path) << text;
    return path;
  }
  // The message of the Error that loading `text` throws; "" without one.
  std::string RefusalOf(const std::string& text) const {
    try {
      (void)TransferCosts::Load(WriteText(text));
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
      return error.status().message();
    }
    return {};
  }

  const TempDir folder_;
};

TEST_F(TransferCostsTest, AreLoadedAsTheyWereWritten) {
  const TransferCosts costs{93.25, 40.1, 511, 47.0625, 12.5};
  const std::string text = costs.Text("a device, and \"quotes\" \xFF");
  EXPECT_EQ(TransferCosts::Load(WriteText(text)), costs);
}

TEST_F(TransferCostsTest, ThoseThatAreNotNamedStayTheDefaults) {
  const auto path = WriteText("{\"ringfeed_transfer_costs\": 1, \"member_ns\": 3000}");
  EXPECT_EQ(TransferCosts::Load(path), TransferCosts{.member_ns = 3000});
}

TEST_F(TransferCostsTest, AFileOfNoneIsRefused) {
  EXPECT_THROW(TransferCosts::Load(folder_.path() + "/not_there"), Error);
  EXPECT_THROW(TransferCosts::Load(folder_.path()), Error);
  const std::string good = TransferCosts().Text("here");
  EXPECT_EQ(RefusalOf(good), "");
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"member_ns\": 3}"),
        good.substr(0, good.size() / 2), good + std::string(1 << 17, ' ')}) {
    EXPECT_NE(RefusalOf(text), "") << text.substr(0, 60);
  }
  const auto of = [](const std::string& rest) {
    return "{\"ringfeed_transfer_costs\": 1, " + rest + "}";
  };
  EXPECT_NE(RefusalOf(of("\"member\": 3")).find("\"member\""), std::string::npos);
  EXPECT_NE(RefusalOf(of("\"member_ns\": \"3\"")).find("no number"), std::string::npos);
  EXPECT_NE(RefusalOf(of("\"row_ns\": -3")).find("TransferCosts::row_ns"), std::string::npos);
  EXPECT_NE(RefusalOf(of("\"row_ns\": 1e7")).find("1000000"), std::string::npos);
  EXPECT_NE(RefusalOf(of("\"row_ns\": 1e999")), "");
  EXPECT_NE(RefusalOf("{\"ringfeed_transfer_costs\": 2}").find("version"), std::string::npos);
}

TEST(TransferCostsCheckTest, NamesTheOneThatCannotBeAndTheRemedy) {
  EXPECT_TRUE(TransferCosts().Check().ok());
  EXPECT_TRUE((TransferCosts{1e-9, 1e6, 1, 1}.Check().ok()));
  for (const double bad : {0.0, -1.0, 1.1e6, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    const Status status = TransferCosts{.link_ns_per_kib = bad}.Check();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find("link_ns_per_kib"), std::string::npos);
    EXPECT_NE(status.message().find("bench --gpu"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
