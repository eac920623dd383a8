// The servers and the proxy that the tests of remote reading use, tried with libcurl.
#include <curl/curl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/remote/curl_client.h"
#include "tests/remote/fault_proxy.h"
#include "tests/remote/nginx_server.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"
#include "tests/support/watchdog.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kBytes = 1'000'000;

class ServersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!NginxServer::Missing().empty()) GTEST_SKIP() << NginxServer::Missing();
    WritePatternFile(folder_.File("data"), kBytes);
    content_ = ReadBytes(folder_.File("data"));
  }

  FaultProxy* Between(ProxyOptions options) {
    if (server_ == nullptr) server_ = std::make_unique<NginxServer>(folder_.path());
    proxy_ = std::make_unique<FaultProxy>(server_->port(), std::move(options));
    return proxy_.get();
  }
  FaultProxy* Between(const ProxyFault& fault) {
    return Between(ProxyOptions{.script = [fault](const ProxiedRequest&) { return fault; }});
  }
  CURLcode Get(const std::string& range = "") { return client_.Get(proxy_->Url("data"), range); }
  bool IsPiece(std::size_t first, std::size_t bytes) const {
    return client_.body == content_.substr(first, bytes);
  }

  const TempDir folder_;
  std::string content_;
  std::unique_ptr<NginxServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
  CurlClient client_;
};

TEST_F(ServersTest, NginxServesRangesOverKeptConnections) {
  const NginxServer server(folder_.path());
  ASSERT_EQ(client_.Get(server.Url("data"), "100-299"), CURLE_OK);
  EXPECT_EQ(client_.Status(), 206);
  EXPECT_TRUE(IsPiece(100, 200));
  ASSERT_EQ(client_.Get(server.Url("data")), CURLE_OK);
  EXPECT_EQ(client_.Status(), 200);
  EXPECT_EQ(client_.Connects(), 0);
  EXPECT_TRUE(IsPiece(0, kBytes));
  ASSERT_EQ(client_.Get(server.Url("nothing")), CURLE_OK);
  EXPECT_EQ(client_.Status(), 404);
}

TEST_F(ServersTest, NginxClosesAfterSoManyRequests) {
  const NginxServer server(folder_.path(), {.keepalive_requests = 3});
  long connections = 0;
  for (int i = 0; i < 7; ++i) {
    ASSERT_EQ(client_.Get(server.Url("data"), "0-9"), CURLE_OK);
    connections += client_.Connects();
  }
  EXPECT_EQ(connections, 3);
}

TEST_F(ServersTest, NginxWithoutRangesAnswers200) {
  const NginxServer server(folder_.path(), {.max_ranges = 0});
  ASSERT_EQ(client_.Get(server.Url("data"), "100-299"), CURLE_OK);
  EXPECT_EQ(client_.Status(), 200);
  EXPECT_EQ(client_.body.size(), kBytes);
}

TEST_F(ServersTest, NginxLimitsTheRate) {
  const NginxServer server(folder_.path(), {.limit_rate = kBytes});
  ASSERT_EQ(client_.Get(server.Url("data")), CURLE_OK);
  EXPECT_GT(client_.Seconds(), 0.3);
}

TEST_F(ServersTest, NginxSpeaksTlsThatItsCaVerifies) {
  const NginxServer server(folder_.path(), {.tls = true});
  EXPECT_EQ(client_.Get(server.Url("data")), CURLE_PEER_FAILED_VERIFICATION);
  curl_easy_setopt(client_.easy(), CURLOPT_CAINFO, server.ca().c_str());
  ASSERT_EQ(client_.Get(server.Url("data"), "5-9"), CURLE_OK);
  EXPECT_TRUE(IsPiece(5, 5));
}

TEST_F(ServersTest, NginxEndsWithItsObject) {
  std::string url;
  {
    const NginxServer server(folder_.path());
    url = server.Url("data");
  }
  EXPECT_EQ(client_.Get(url), CURLE_COULDNT_CONNECT);
}

TEST_F(ServersTest, TheProxyPassesOnAndCounts) {
  Between(ProxyOptions{});
  ASSERT_EQ(Get("10-19"), CURLE_OK);
  EXPECT_EQ(client_.Status(), 206);
  EXPECT_TRUE(IsPiece(10, 10));
  ASSERT_EQ(Get(), CURLE_OK);
  EXPECT_TRUE(IsPiece(0, kBytes));
  EXPECT_EQ(client_.Connects(), 0);
  const ProxyCounts counts = proxy_->counts();
  EXPECT_EQ(counts.requests, 2U);
  EXPECT_EQ(counts.faults, 0U);
  EXPECT_EQ(counts.connections, 1U);
  EXPECT_EQ(counts.body_bytes, 10 + kBytes);
  ASSERT_EQ(counts.ranges.size(), 1U);
  EXPECT_EQ(counts.ranges[0], (std::pair<std::uint64_t, std::uint64_t>(10, 19)));
}

// What libcurl makes of a fault, and the bytes that come.
struct FaultCase {
  const char* name;
  ProxyFault fault;
  CURLcode code = CURLE_OK;
  long status = 206;
  std::size_t bytes = 1000;  // of the range 5000-5999
  bool same = true;
};

class FaultTest : public ServersTest, public testing::WithParamInterface<FaultCase> {};

TEST_P(FaultTest, IsSeenByTheClient) {
  const FaultCase& expected = GetParam();
  Between(expected.fault);
  EXPECT_EQ(Get("5000-5999"), expected.code);
  EXPECT_EQ(client_.Status(), expected.status);
  EXPECT_EQ(client_.body.size(), expected.bytes);
  EXPECT_TRUE(!expected.same || IsPiece(5000, expected.bytes));
  EXPECT_EQ(proxy_->counts().faults, proxy_->counts().requests);
}

using Ending = ProxyFault::Ending;
INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    testing::Values(
        FaultCase{"CutBetween", {.cut_head = 0}, CURLE_GOT_NOTHING, 0, 0},
        FaultCase{"CutInHead", {.cut_head = 40}, CURLE_OK, 206, 0},
        FaultCase{"CutInBody", {.cut_body = 300}, CURLE_PARTIAL_FILE, 206, 300},
        FaultCase{
            "ResetBetween", {.cut_head = 0, .ending = Ending::kReset}, CURLE_RECV_ERROR, 0, 0},
        FaultCase{"Answer503",
                  {.status = 503, .headers = {{"retry-after", "1"}}, .body = "slow"},
                  CURLE_OK,
                  503,
                  4,
                  false},
        FaultCase{"OtherRange", {.range_off = 7}},
        FaultCase{"LengthTooLong", {.length_off = 5, .close_after = true}, CURLE_PARTIAL_FILE},
        FaultCase{"LengthTooShort", {.length_off = -5, .close_after = true}, CURLE_OK, 206, 995},
        FaultCase{"BodyTooShort", {.length_off = -5, .body_off = -5}, CURLE_OK, 206, 995},
        FaultCase{"BodyTooLong", {.length_off = 5, .body_off = 5}, CURLE_OK, 206, 1005, false},
        FaultCase{"RangeIgnored", {.ignore_range = true}, CURLE_OK, 200, kBytes, false},
        FaultCase{"Chunked", {.chunked = true}}, FaultCase{"Trickle", {.trickle_bytes = 100}},
        FaultCase{"Garbage",
                  {.raw = "SSH-2.0-OpenSSH_9.2\r\n"},
                  CURLE_UNSUPPORTED_PROTOCOL,
                  0,
                  0,
                  false}),
    [](const auto& its) { return std::string(its.param.name); });

TEST_F(ServersTest, AFlippedByteIsThatOfTheObject) {
  Between(ProxyFault{.flips = {5010}});
  ASSERT_EQ(Get("5000-5999"), CURLE_OK);
  ASSERT_EQ(client_.body.size(), 1000U);
  EXPECT_EQ(client_.body[10], static_cast<char>(~content_[5010]));
  client_.body[10] = content_[5010];
  EXPECT_TRUE(IsPiece(5000, 1000));
  ASSERT_EQ(Get("6000-6999"), CURLE_OK);
  EXPECT_TRUE(IsPiece(6000, 1000));
}

TEST_F(ServersTest, AConnectionIsClosedAfterSoManyAnswersOrIdle) {
  Between(ProxyOptions{.close_after = 2});
  for (const long connects : {1, 0, 1, 0}) {
    ASSERT_EQ(Get("0-9"), CURLE_OK);
    EXPECT_EQ(client_.Connects(), connects);
  }
  Between(ProxyOptions{.idle_close_ms = 1});
  ASSERT_EQ(Get("0-9"), CURLE_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ASSERT_EQ(Get("0-9"), CURLE_OK);
  EXPECT_EQ(client_.Connects(), 1);
}

TEST_F(ServersTest, RedirectsInACircleAndEndlessHeadsEndTheClient) {
  FaultProxy* const proxy = Between(ProxyOptions{});
  proxy->SetScript([to = proxy->Url("data")](const ProxiedRequest&) {
    return ProxyFault{.status = 302, .headers = {{"location", to}}};
  });
  curl_easy_setopt(client_.easy(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(client_.easy(), CURLOPT_MAXREDIRS, 5L);
  EXPECT_EQ(Get(), CURLE_TOO_MANY_REDIRECTS);
  EXPECT_EQ(proxy->counts().requests, 6U);
  Between(ProxyFault{.endless_head = true});
  EXPECT_NE(Get(), CURLE_OK);
}

TEST_F(ServersTest, OneThatNeverAnswersEndsWithItsObject) {
  Between(ProxyFault{.cut_head = 0, .ending = Ending::kHold});
  curl_easy_setopt(client_.easy(), CURLOPT_TIMEOUT_MS, 200L);
  EXPECT_EQ(Get(), CURLE_OPERATION_TIMEDOUT);
  curl_easy_setopt(client_.easy(), CURLOPT_TIMEOUT_MS, 0L);
  std::jthread other([&] { EXPECT_EQ(Get(), CURLE_GOT_NOTHING); });
  while (proxy_->counts().requests < 2) std::this_thread::yield();
  proxy_.reset();
}

TEST_F(ServersTest, AServerThatIsDownRefusesUntilItComesBack) {
  FaultProxy* const proxy = Between(ProxyOptions{});
  ASSERT_EQ(Get("0-9"), CURLE_OK);
  for (int i = 0; i < 3; ++i) {
    proxy->GoDown();
    EXPECT_EQ(Get("0-9"), CURLE_COULDNT_CONNECT);
    proxy->ComeBack();
    EXPECT_EQ(Get("0-9"), CURLE_OK);
  }
}

TEST_F(ServersTest, ALinkHasARoundTripAndARate) {
  Between(ProxyOptions{.round_trip_ms = 30, .rate = 4 * kBytes});
  ASSERT_EQ(Get(), CURLE_OK);
  EXPECT_GT(client_.Seconds(), 0.06 + 0.25 - 0.02);  // of the last piece nothing is waited for
  ASSERT_EQ(Get("0-9"), CURLE_OK);
  EXPECT_GT(client_.Seconds(), 0.029);
}

TEST_F(ServersTest, ManyConnectionsAndRandomFaultsEnd) {
  const ProxyFault cut{.cut_body = 100};
  const ProxyFault reset{.cut_body = 5000, .ending = Ending::kReset};
  const ProxyFault slow{.status = 503};
  FaultProxy* const proxy = Between(ProxyOptions{.script = RandomFaults(5, 0.3, {cut, reset, slow}),
                                                 .close_after = 5,
                                                 .rate = 40 * kBytes,
                                                 .crowd = 4});
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        CurlClient client;
        for (int round = 0; round < 20; ++round) {
          const CURLcode code = client.Get(proxy->Url("data"), "1000-20999");
          if (code == CURLE_OK && client.body == content_.substr(1000, 20000)) ++right;
        }
      });
    }
  }
  const ProxyCounts counts = proxy->counts();
  EXPECT_GE(counts.requests, 160U);  // libcurl asks once more if a kept connection was closed
  EXPECT_GT(counts.faults, 20U);
  EXPECT_GT(right, 80);
  EXPECT_GT(counts.most_connections, 1U);
  // An answer can still be under way after its client went to another connection.
  EXPECT_LE(counts.most_answers, counts.most_connections);
}

}  // namespace
}  // namespace ringfeed

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  ringfeed::InstallWatchdog(60);
  curl_global_init(CURL_GLOBAL_ALL);
  return RUN_ALL_TESTS();
}
