#include "metrics/address.h"

#include <gtest/gtest.h>

#include <string>

#include "ringfeed/status.h"

namespace ringfeed {
namespace {

using Kind = MetricsAddress::Kind;

AddressContext Context(bool may_be_public = false) {
  return {.pid = 4711, .local_rank = [] { return 3; }, .may_be_public = may_be_public};
}

MetricsAddress Parsed(const std::string& text) { return ParseMetricsAddress(text, Context()); }

std::string Refusal(const std::string& text) {
  try {
    (void)Parsed(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    return error.status().message();
  }
  return "it was taken";
}

TEST(MetricsAddressTest, ThereAreSocketsPortsAndFiles) {
  EXPECT_EQ(Parsed("unix:/run/job").kind, Kind::kUnix);
  EXPECT_EQ(Parsed("unix:/run/job").path, "/run/job");
  EXPECT_EQ(Parsed("127.0.0.1:9400").kind, Kind::kTcp);
  EXPECT_EQ(Parsed("127.0.0.1:9400").port, 9400);
  EXPECT_EQ(Parsed("localhost:0").host, "127.0.0.1");
  EXPECT_EQ(Parsed("[::1]:80").host, "::1");
  EXPECT_EQ(Parsed("/var/lib/job.prom").kind, Kind::kFile);
  EXPECT_EQ(Parsed("job.prom").kind, Kind::kFile);
  EXPECT_EQ(Parsed("./job").kind, Kind::kFile);
  EXPECT_EQ(Parsed("/a/b:80").kind, Kind::kFile) << "a file may have a colon in its name";
}

TEST(MetricsAddressTest, TheProcessAndItsRankMayBePartOfIt) {
  EXPECT_EQ(Parsed("unix:/run/job-%p").path, "/run/job-4711");
  EXPECT_EQ(Parsed("127.0.0.1:940%r").port, 9403);
  EXPECT_EQ(Parsed("./100%%").path, "./100%");
  EXPECT_NE(Refusal("./a%d").find("after % stands"), std::string::npos);
  EXPECT_NE(Refusal("./a%").find("after % stands"), std::string::npos);
}

TEST(MetricsAddressTest, ItsTextIsParsedToItself) {
  for (const char* text : {"unix:/run/job", "127.0.0.1:9400", "[::1]:80", "./job", "job.prom"}) {
    EXPECT_EQ(Parsed(text).ToString(), text);
  }
}

TEST(MetricsAddressTest, WhatOtherMachinesCanReachMustBeAllowed) {
  for (const char* text : {"0.0.0.0:9400", "192.168.1.7:9400", "[::]:9400"}) {
    EXPECT_NE(Refusal(text).find("RINGFEED_METRICS_PUBLIC=1"), std::string::npos) << text;
    const MetricsAddress allowed = ParseMetricsAddress(text, Context(true));
    EXPECT_FALSE(allowed.loopback) << text;
  }
  EXPECT_TRUE(Parsed("127.9.9.9:1").loopback);
}

TEST(MetricsAddressTest, WhatMakesNoSenseIsRefusedWithTheRemedy) {
  EXPECT_NE(Refusal("127.0.0.1").find("127.0.0.1:9400"), std::string::npos);
  EXPECT_NE(Refusal("9400").find("127.0.0.1:9400"), std::string::npos);
  EXPECT_NE(Refusal("yes").find("127.0.0.1:9400"), std::string::npos);
  EXPECT_NE(Refusal("127.0.0.1:99999").find("65535"), std::string::npos);
  EXPECT_NE(Refusal("127.0.0.1:").find("a port is a number"), std::string::npos);
  EXPECT_NE(Refusal("example.com:80").find("is a number"), std::string::npos);
  EXPECT_NE(Refusal(":9400").find("is a number"), std::string::npos);
  EXPECT_NE(Refusal("unix:").find("path"), std::string::npos);
  EXPECT_NE(Refusal("./a\nb").find("control character"), std::string::npos) << "a note has lines";
  EXPECT_EQ(Refusal("./a\x1b[31m").find('\x1b'), std::string::npos) << "a terminal shows it";
  EXPECT_NE(Refusal("unix:/" + std::string(200, 'a')).find("shorter"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed
