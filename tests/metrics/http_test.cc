#include "metrics/http.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace ringfeed {
namespace {

TEST(HttpTest, AHeadEndsWithAnEmptyLine) {
  EXPECT_EQ(EndOfHead("GET / HTTP/1.1\r\n\r\nrest"), 18U);
  EXPECT_EQ(EndOfHead("GET / HTTP/1.0\n\n"), 16U);
  EXPECT_EQ(EndOfHead("GET / HTTP/1.1\r\nHost: a\r\n"), std::nullopt);
  EXPECT_EQ(EndOfHead("GET / HTTP/1.0\n\nrest\r\n\r\n"), 16U);
}

TEST(HttpTest, ARequestIsReadWhateverTheCaseOfItsNames) {
  const std::optional<PageRequest> request = ParseRequest(
      "GET /metrics?a=b HTTP/1.1\r\nHOST: LocalHost:9400\r\naccept:  Text/Plain \r\nX: y\r\n\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/metrics");
  EXPECT_EQ(request->host, "localhost");
  EXPECT_EQ(request->accept, "text/plain");
  EXPECT_EQ(ParseRequest("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n")->host, "[::1]");
}

TEST(HttpTest, WhatIsNoHttpIsNoRequest) {
  for (const char* text : {"", "\r\n\r\n", "GET /\r\n\r\n", "GET metrics HTTP/1.1\r\n\r\n",
                           "get / HTTP/1.1\r\n\r\n", "GET / HTTP/2\r\n\r\n", " / HTTP/1.1\r\n\r\n",
                           "\x16\x03\x01\x02\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n"}) {
    EXPECT_FALSE(ParseRequest(text)) << text;
  }
}

TEST(HttpTest, OpenMetricsIsServedToWhoTakesIt) {
  EXPECT_TRUE(AcceptsOpenMetrics("application/openmetrics-text"));
  EXPECT_TRUE(AcceptsOpenMetrics(
      "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"));
  EXPECT_TRUE(AcceptsOpenMetrics("text/plain, application/openmetrics-text; q=0.1"));
  EXPECT_FALSE(AcceptsOpenMetrics("application/openmetrics-text;q=0"));
  EXPECT_FALSE(AcceptsOpenMetrics("text/plain"));
  EXPECT_FALSE(AcceptsOpenMetrics("*/*"));
  EXPECT_FALSE(AcceptsOpenMetrics(""));
}

TEST(HttpTest, NamesOfOtherMachinesAreNotThisOnes) {
  for (const char* name : {"", "localhost", "127.0.0.1", "127.1.2.3", "[::1]"}) {
    EXPECT_TRUE(IsLocalName(name)) << name;
  }
  for (const char* name :
       {"example.com", "127.0.0.1.example.com", "localhost.example.com", "10.0.0.1"}) {
    EXPECT_FALSE(IsLocalName(name)) << name;
  }
}

TEST(HttpTest, AnAnswerSaysItsLengthAlsoWithoutItsBody) {
  const std::string with = AnswerText({.body = "hello"}, true);
  EXPECT_TRUE(with.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(with.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_TRUE(with.ends_with("\r\n\r\nhello"));
  const std::string without = AnswerText({.body = "hello"}, false);
  EXPECT_NE(without.find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_TRUE(without.ends_with("\r\n\r\n"));
}

}  // namespace
}  // namespace ringfeed
