// The two ways to a range, by connections of our own and by libcurl, bring the same bytes.
#include <curl/curl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "io/remote/direct_connection.h"
#include "io/remote/direct_request.h"
#include "io/remote/host_share.h"
#include "io/remote/remote_engine.h"
#include "io/remote/remote_source.h"
#include "ringfeed/log.h"
#include "tests/remote/fault_proxy.h"
#include "tests/remote/nginx_server.h"
#include "tests/support/pattern_file.h"
#include "tests/support/watchdog.h"

// A name with two addresses, which this machine has none of: libcurl calls this function.
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* name,
                                                                  const char* service,
                                                                  const addrinfo* hints,
                                                                  addrinfo** found) {
  const auto real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || std::strcmp(name, "two.test") != 0) {
    return real(name, service, hints, found);
  }
  addrinfo* second = nullptr;
  if (const int error = real("127.0.0.1", service, hints, found); error != 0) return error;
  if (const int error = real("127.0.0.2", service, hints, &second); error != 0) return error;
  addrinfo* last = *found;
  while (last->ai_next != nullptr) last = last->ai_next;
  last->ai_next = second;  // freeaddrinfo frees them one by one
  return 0;
}

namespace ringfeed {
namespace {

using Ending = ProxyFault::Ending;

class HttpPathsTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 3'000'000;

  void SetUp() override {
    if (!NginxServer::Missing().empty()) GTEST_SKIP() << NginxServer::Missing();
    for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "http_proxy",
                             "https_proxy", "all_proxy", "ALL_PROXY"}) {
      (void)unsetenv(name);
    }
    WritePatternFile(directory_.File("data"), kBytes, 7);
    std::ostringstream text;
    text << std::ifstream(directory_.File("data")).rdbuf();
    content_ = text.str();
  }
  void TearDown() override { (void)unsetenv("CURL_CA_BUNDLE"); }

  /// What reading took.
  struct Outcome {
    std::size_t right = 0;
    std::size_t failed = 0;
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
    std::uint64_t retries = 0;
    std::uint64_t by_library = 0;
  };

  /// Reads `count` random ranges of an address by one path and compares them.
  Outcome Read(const std::string& url, HttpPath path, std::size_t count,
               std::uint32_t most_bytes = 300'000, const InFlightRule& rule = {}) const {
    IoOptions options;
    options.remote_patience_ms = 20'000;
    OpenInputResult opened = OpenNamed(url, options);
    EXPECT_TRUE(opened.status.ok()) << opened.status.ToString();
    const std::unique_ptr<ReadEngine> engine = MakeHttpEngine(path, rule);
    std::mt19937_64 random(11);
    std::vector<ReadRequest> requests(count);
    std::vector<std::vector<std::byte>> buffers(count);
    std::vector<ReadRequest*> waiting;
    for (std::size_t i = 0; i < count; ++i) {
      const auto bytes = static_cast<std::uint32_t>(1 + random() % most_bytes);
      buffers[i].resize(bytes);
      const std::uint64_t offset = i % 10 == 0 ? kBytes - 1 - random() % 1000 : random() % kBytes;
      requests[i] = {opened.file.get(), offset, buffers[i].data(), bytes};
      waiting.push_back(&requests[i]);
    }
    Outcome outcome;
    std::size_t submitted = 0;
    while (outcome.right + outcome.failed < count) {
      submitted += engine->Submit(std::span(waiting).subspan(submitted));
      std::vector<ReadRequest*> finished(16);
      const std::size_t ended =
          engine->Reap(finished, std::chrono::steady_clock::now() + std::chrono::seconds(30));
      for (std::size_t i = 0; i < ended; ++i) Check(*finished[i], &outcome);
    }
    const RemoteCounters& counters = *opened.file->remote()->counters();
    outcome.requests = counters.requests;
    outcome.bytes = counters.bytes;
    outcome.retries = counters.retries;
    outcome.by_library = counters.by_library;
    return outcome;
  }

  void Check(const ReadRequest& read, Outcome* outcome) const {
    const std::size_t expected = std::min<std::size_t>(read.bytes, kBytes - read.offset);
    const bool is_right = read.status.ok() && read.got == expected &&
                          std::memcmp(read.buffer, content_.data() + read.offset, expected) == 0;
    EXPECT_TRUE(is_right || !read.status.ok()) << read.offset << ": other bytes";
    EXPECT_TRUE(read.status.ok()) << read.status.ToString();
    ++(is_right ? outcome->right : outcome->failed);
  }

  const TempDir directory_;
  std::string content_;
};

TEST_F(HttpPathsTest, OrdinaryAnswersAreReadWithoutLibcurl) {
  const NginxServer server(directory_.path());
  const Outcome direct = Read(server.Url("data"), HttpPath::kDirect, 300);
  EXPECT_EQ(direct.right, 300u);
  EXPECT_EQ(direct.by_library, 0u);
  EXPECT_EQ(direct.retries, 0u);
  const Outcome library = Read(server.Url("data"), HttpPath::kLibrary, 300);
  EXPECT_EQ(library.right, 300u);
  EXPECT_EQ(direct.requests, library.requests);
  EXPECT_EQ(direct.bytes, library.bytes);
}

TEST_F(HttpPathsTest, SoAreThoseThatComeByTls) {
  const NginxServer server(directory_.path(), {.tls = true});
  ASSERT_EQ(setenv("CURL_CA_BUNDLE", server.ca().c_str(), 1), 0);
  const Outcome direct = Read(server.Url("data"), HttpPath::kDirect, 200);
  EXPECT_EQ(direct.right, 200u);
  EXPECT_EQ(direct.by_library, 0u);
  EXPECT_EQ(direct.retries, 0u);
}

TEST_F(HttpPathsTest, AServerThatClosesConnectionsIsNoFailure) {
  const NginxServer server(directory_.path(), {.keepalive_requests = 3});
  const Outcome direct = Read(server.Url("data"), HttpPath::kDirect, 200, 2'000);
  EXPECT_EQ(direct.right, 200u);
  EXPECT_EQ(direct.by_library, 0u);
  EXPECT_EQ(direct.retries, 0u);
}

TEST_F(HttpPathsTest, UnusualAnswersGoByLibcurl) {
  const NginxServer server(directory_.path());
  FaultProxy proxy(server.port(), {.script = [](const ProxiedRequest& /*request*/) {
                     return ProxyFault{.chunked = true};
                   }});
  const Outcome direct = Read(proxy.Url("data"), HttpPath::kDirect, 50);
  EXPECT_EQ(direct.right, 50u);
  EXPECT_GE(direct.by_library, 45u);  // the first bytes came at the opening
  EXPECT_EQ(direct.retries, 0u);
}

TEST_F(HttpPathsTest, BothBringTheSameBytesWhateverHappens) {
  const NginxServer server(directory_.path());
  const std::vector<ProxyFault> faults = {
      {.cut_head = 40},         {.cut_body = 1'000},
      {.cut_body = 0},          {.cut_head = 0, .ending = Ending::kReset},
      {.status = 503},          {.cut_body = 70'000, .ending = Ending::kReset},
      {.status = 500},          {.range_off = 7},
      {.length_off = -5},       {.length_off = 5, .close_after = true},
      {.body_off = 100},        {.ignore_range = true},
      {.raw = "SSH-2.0-x\r\n"}, {.length_off = -5, .body_off = -5},
      {.endless_head = true},   {.chunked = true},
      {.delay_ms = 20},         {.trickle_bytes = 8'000}};
  for (const HttpPath path : {HttpPath::kDirect, HttpPath::kLibrary}) {
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      FaultProxy proxy(server.port(),
                       {.script = RandomFaults(seed, 0.3, faults), .close_after = 20});
      const Outcome outcome = Read(proxy.Url("data"), path, 120);
      EXPECT_EQ(outcome.right, 120u) << seed;
      EXPECT_GT(proxy.counts().faults, 10u);
      EXPECT_EQ(outcome.by_library > 0, path == HttpPath::kDirect);
    }
  }
}

// A connection of libcurl's, made.
std::unique_ptr<DirectConnection> Connected(CURLM* multi, const std::string& origin, bool is_tls) {
  auto made = std::make_unique<DirectConnection>(multi, DirectRequest{origin, "", is_tls}, 20);
  const CURLMsg* message = nullptr;
  int running = 1;
  int waiting = 0;
  while (running > 0) {
    curl_multi_perform(multi, &running);
    curl_multi_poll(multi, nullptr, 0, 10, nullptr);
  }
  message = curl_multi_info_read(multi, &waiting);
  EXPECT_NE(message, nullptr);
  EXPECT_EQ(message->data.result, CURLE_OK);
  EXPECT_TRUE(made->OnConnected());
  return made;
}

// Which socket a descriptor is.
ino_t SocketOf(int descriptor) {
  struct stat about {};
  EXPECT_EQ(fstat(descriptor, &about), 0);
  return about.st_ino;
}

// libcurl closes connections of its pool that have ended, before it makes another one, at most once
// a second. A descriptor that it closed is the next one's, or a file's.
TEST_F(HttpPathsTest, ADescriptorIsOneConnectionsUntilThatIsDestroyed) {
  for (const bool is_tls : {false, true}) {
    SCOPED_TRACE(is_tls ? "TLS" : "plain");
    const NginxServer server(directory_.path(),
                             {.tls = is_tls, .directives = "client_header_timeout 1s;"});
    if (is_tls) (void)setenv("CURL_CA_BUNDLE", server.ca().c_str(), 1);
    std::string origin = server.Url("");
    origin.pop_back();
    const std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi(curl_multi_init(),
                                                                      &curl_multi_cleanup);
    const auto first = Connected(multi.get(), origin, is_tls);
    const ino_t socket = SocketOf(first->socket());
    const auto meanwhile = Connected(multi.get(), origin, is_tls);
    pollfd ended{first->socket(), POLLRDHUP, 0};
    ASSERT_EQ(poll(&ended, 1, 10'000), 1);
    const auto last = Connected(multi.get(), origin, is_tls);
    EXPECT_EQ(SocketOf(first->socket()), socket);
    EXPECT_NE(SocketOf(meanwhile->socket()), socket);
    EXPECT_NE(SocketOf(last->socket()), socket);
  }
}

TEST_F(HttpPathsTest, AnEngineIsDestroyedWhileItReads) {
  const NginxServer server(directory_.path(), {.limit_rate = 100'000});
  IoOptions options;
  OpenInputResult opened = OpenNamed(server.Url("data"), options);
  ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
  std::vector<std::byte> buffer(kBytes);
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<ReadEngine> engine = MakeHttpEngine();
    ReadRequest reads[] = {{opened.file.get(), 1'000'000, buffer.data(), 1'000'000},
                           {opened.file.get(), 2'000'000, buffer.data() + 1'000'000, 900'000}};
    ReadRequest* requests[] = {&reads[0], &reads[1]};
    ASSERT_EQ(engine->Submit(requests), 2u);
    ReadRequest* finished = nullptr;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(i);
    EXPECT_EQ(engine->Reap({&finished, 1}, until), 0u);
  }
}

TEST_F(HttpPathsTest, AllEnginesOfAProcessKeepToTheCapOfAHost) {
  constexpr std::size_t kEach = 64;
  constexpr std::size_t kEngines = HostShare::kMostOfHost / kEach + 2;
  const NginxServer server(directory_.path());
  FaultProxy proxy(server.port(), {.round_trip_ms = 100});
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kEngines; ++i) {
      threads.emplace_back([&] {
        const Outcome outcome =
            Read(proxy.Url("data"), HttpPath::kDirect, 6 * kEach, 2'000, InFlightRule(kEach));
        EXPECT_EQ(outcome.right, 6 * kEach);
      });
    }
  }
  EXPECT_LE(proxy.counts().most_answers, HostShare::kMostOfHost);
  EXPECT_GT(proxy.counts().most_answers, HostShare::kMostOfHost / 2);
}

std::vector<std::string> told;

TEST_F(HttpPathsTest, ThatAStoreIsWaitedForIsToldOnceWithoutSecrets) {
  (void)unsetenv("RINGFEED_LOG");
  const pid_t child = fork();  // it is told once in a process
  if (child == 0) {
    SetLog([](LogLevel /*level*/, const std::string& text) noexcept { told.push_back(text); });
    IoOptions options;
    options.remote_patience_ms = 1'500;
    bool is_right = true;
    for (const char* name : {"a", "b"}) {
      const std::string url = std::string("http://nowhere.invalid/") + name + "?key=secret";
      const Status status = OpenNamed(url, options).status;
      is_right = is_right && status.code() == StatusCode::kResourceExhausted;
    }
    const std::string all = told.size() == 1 ? told[0] : "";
    for (const char* words : {"http://nowhere.invalid/a ", "1500 ms (remote_patience_ms)"}) {
      is_right = is_right && all.find(words) != std::string::npos;
    }
    if (!is_right) std::fprintf(stderr, "%zu: %s\n", told.size(), all.c_str());
    _exit(is_right && all.find("secret") == std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(HttpPathsTest, ConnectionsGoToAllAddressesOfAName) {
  const NginxServer server(directory_.path(), {.keepalive_requests = 1, .two_addresses = true});
  const std::string url = "http://two.test:" + std::to_string(server.port()) + "/data";
  EXPECT_EQ(Read(url, HttpPath::kDirect, 100, 2'000).right, 100u);
  const auto counts = server.Connections();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_GT(counts.at("127.0.0.1"), 20u);  // of 100, each by chance
  EXPECT_GT(counts.at("127.0.0.2"), 20u);
}

}  // namespace
}  // namespace ringfeed

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  ringfeed::InstallWatchdog(120);
  return RUN_ALL_TESTS();
}
