#include "metrics/http_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/metrics/http_client.h"

namespace ringfeed {
namespace {

MetricsAddress AnyPort() {
  return {.kind = MetricsAddress::Kind::kTcp, .host = "127.0.0.1", .port = 0};
}

MetricsAddress AtPath(const std::string& path) {
  return {.kind = MetricsAddress::Kind::kUnix, .path = path};
}

/// A server on a thread of its own.
class RunningServer {
 public:
  explicit RunningServer(MetricsAddress address, const HttpLimits& limits = {},
                         std::size_t body_bytes = 5)
      : address_(std::move(address)),
        waker_(OwnDescriptor::Open([] { return eventfd(0, EFD_CLOEXEC); })) {
    OwnDescriptor listener;
    const Status status = ListenAt(&address_, &listener);
    EXPECT_TRUE(status.ok()) << status.ToString();
    server_ = std::make_unique<HttpServer>(
        std::move(listener), address_.kind == MetricsAddress::Kind::kTcp, limits,
        [body_bytes](const PageRequest& request) {
          return HttpAnswer{.body = request.path + std::string(body_bytes, '.')};
        });
    thread_ =
        std::jthread([this](const std::stop_token& stop) { server_->Run(stop, waker_.get()); });
  }
  ~RunningServer() {
    thread_.request_stop();
    const std::uint64_t one = 1;
    (void)!write(waker_.get(), &one, sizeof(one));
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  const MetricsAddress& address() const { return address_; }

 private:
  MetricsAddress address_;
  OwnDescriptor waker_;
  std::unique_ptr<HttpServer> server_;
  std::jthread thread_;
};

int StatusOf(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

/// Whether this process still has the other end of a client's connection.
bool IsHeldByTheServer(const TestClient& client) {
  sockaddr_in mine{};
  socklen_t bytes = sizeof(mine);
  EXPECT_EQ(getsockname(client.socket(), reinterpret_cast<sockaddr*>(&mine), &bytes), 0);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_in peer{};
    bytes = sizeof(peer);
    const int descriptor = std::stoi(entry.path().filename());
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
        peer.sin_family == AF_INET && peer.sin_port == mine.sin_port) {
      return true;
    }
  }
  return false;
}

constexpr HttpLimits kShort = {.connections = 4,
                               .request = std::chrono::milliseconds(300),
                               .answer = std::chrono::milliseconds(300),
                               .farewell = std::chrono::milliseconds(300)};

using Clock = std::chrono::steady_clock;

/// Longer than any machine takes.
constexpr std::chrono::seconds kPatience{200};

/// The status that a server of those limits answers with. A client that got no processor for so
/// long as a request may take is let go of, and asks again; one that came in time is answered.
int StatusFromServerOf(const HttpLimits& limits, const MetricsAddress& address) {
  const Clock::time_point most = Clock::now() + kPatience;
  while (true) {
    const Clock::time_point before = Clock::now();
    const std::string answer = TestClient(address).Ask("/");
    const Clock::time_point now = Clock::now();
    if (!answer.empty() || now - before < limits.request || now > most) return StatusOf(answer);
  }
}

/// A client whose answer has begun, and that has not read any of it; null where none begins. As
/// StatusFromServerOf.
std::unique_ptr<TestClient> BeginAnAnswer(const HttpLimits& limits, const MetricsAddress& address) {
  const Clock::time_point most = Clock::now() + kPatience;
  while (true) {
    const Clock::time_point before = Clock::now();
    auto client = std::make_unique<TestClient>(address);
    (void)client->Send("GET / HTTP/1.1\r\n\r\n");
    char first = 0;
    ssize_t got = -1;
    do {
      got = recv(client->socket(), &first, 1, MSG_PEEK);
    } while (got < 0 && errno == EAGAIN && Clock::now() < most);
    if (got == 1) return client;
    if (Clock::now() - before < limits.request || Clock::now() > most) return nullptr;
  }
}

TEST(HttpServerTest, ARequestIsAnsweredAtAPortAndAtAPath) {
  const RunningServer port(AnyPort());
  EXPECT_NE(port.address().port, 0);
  const std::string answer = TestClient(port.address()).Ask("/a", "Host: localhost\r\n");
  EXPECT_EQ(StatusOf(answer), 200);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n/a....."));
  const std::string path = testing::TempDir() + "/server.sock";
  const RunningServer named(AtPath(path));
  EXPECT_EQ(StatusOf(TestClient(named.address()).Ask("/a")), 200);
  struct stat found {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U) << "its user's alone";
  std::filesystem::remove(path);
}

TEST(HttpServerTest, ARequestMayComeByteByByte) {
  const RunningServer server(AnyPort());
  const TestClient client(server.address());
  for (const char c : std::string("GET / HTTP/1.0\r\n\r\n")) ASSERT_TRUE(client.Send({&c, 1}));
  EXPECT_EQ(StatusOf(client.Receive()), 200);
}

TEST(HttpServerTest, GarbageOtherMethodsAndOtherNamesAreRefused) {
  const RunningServer server(AnyPort());
  const auto answer_to = [&](std::string_view text) {
    const TestClient client(server.address());
    (void)client.Send(text);
    return StatusOf(client.Receive());
  };
  EXPECT_EQ(answer_to("\x16\x03\x01 garbage\n\n"), 400);
  EXPECT_EQ(answer_to("POST / HTTP/1.1\r\n\r\n"), 405);
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"), 403);
  EXPECT_EQ(answer_to("HEAD / HTTP/1.1\r\n\r\n"), 200);
}

TEST(HttpServerTest, TenMegabytesOfHeadAreNotKept) {
  const RunningServer server(AnyPort());
  const TestClient client(server.address());
  std::jthread sends([&client] {
    (void)client.Send("GET / HTTP/1.1\r\n");
    (void)client.Send(std::string(10 << 20, 'a'));
  });
  EXPECT_EQ(StatusOf(client.Receive()), 431);
  sends.join();
  EXPECT_EQ(StatusOf(TestClient(server.address()).Ask("/")), 200);
}

TEST(HttpServerTest, WhoSaysNothingIsLetGoOfAndKeepsNobodyOut) {
  const RunningServer server(AnyPort(), kShort);
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<TestClient>(server.address()));
    if (i % 2 == 0) (void)silent.back()->Send("GET /");
  }
  EXPECT_EQ(StatusFromServerOf(kShort, server.address()), 200);
  for (const auto& client : silent) EXPECT_EQ(client->Receive(), "") << "closed without an answer";
}

TEST(HttpServerTest, WhoReadsSlowlyIsLetGoOf) {
  constexpr std::size_t kBody = 64 << 20;  // more than the system keeps for a connection
  const RunningServer server(AnyPort(), kShort, kBody);
  const std::unique_ptr<TestClient> slow = BeginAnAnswer(kShort, server.address());
  ASSERT_NE(slow, nullptr);
  while (IsHeldByTheServer(*slow)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LT(slow->Receive().size(), kBody);
  EXPECT_EQ(StatusFromServerOf(kShort, server.address()), 200);
}

TEST(HttpServerTest, WhoGoesAwayHurtsNobody) {
  const RunningServer server(AnyPort(), {}, 1 << 20);
  for (int i = 0; i < 50; ++i) {
    const TestClient client(server.address());
    const linger reset{1, 0};
    (void)setsockopt(client.socket(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)client.Send(i % 2 == 0 ? "GET / HTTP/1.1\r\n\r\n" : "GET");
  }
  EXPECT_EQ(StatusOf(TestClient(server.address()).Ask("/")), 200);
}

TEST(ListenTest, WhereAnotherOneListensNobodyIsTakenOver) {
  const std::string path = testing::TempDir() + "/taken.sock";
  const RunningServer first(AtPath(path));
  MetricsAddress again = AtPath(path);
  OwnDescriptor listener;
  EXPECT_NE(ListenAt(&again, &listener).message().find("another process listens there"),
            std::string::npos);
  EXPECT_EQ(StatusOf(TestClient(first.address()).Ask("/")), 200);
  const RunningServer port(AnyPort());
  MetricsAddress taken = port.address();
  EXPECT_NE(ListenAt(&taken, &listener).message().find("another process listens there"),
            std::string::npos);
  std::filesystem::remove(path);
}

TEST(ListenTest, WhatAProcessLeftBehindIsReplacedAndNothingElseIs) {
  const std::string path = testing::TempDir() + "/left.sock";
  { const RunningServer ended(AtPath(path)); }
  ASSERT_TRUE(std::filesystem::exists(path)) << "the server itself takes nothing away";
  { const RunningServer next(AtPath(path)); }
  std::filesystem::remove(path);
  std::ofstream(path) << "a thesis";
  MetricsAddress address = AtPath(path);
  OwnDescriptor listener;
  EXPECT_FALSE(ListenAt(&address, &listener).ok());
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
  std::filesystem::remove(path);
  address = AtPath(testing::TempDir() + "/no/such/folder.sock");
  EXPECT_FALSE(ListenAt(&address, &listener).ok());
}

TEST(ListenTest, WhatAnotherUserLeftBehindStays) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a socket away";
  const std::string path = testing::TempDir() + "/others.sock";
  { const RunningServer ended(AtPath(path)); }
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(lchown(path.c_str(), kNobody, kNobody), 0);
  MetricsAddress address = AtPath(path);
  OwnDescriptor listener;
  EXPECT_FALSE(ListenAt(&address, &listener).ok());
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

// As a short name in a deep folder is, once it is made absolute.
TEST(ListenTest, APathThatIsTooLongForASocketIsRefusedAndNotCutShort) {
  const std::string folder = testing::TempDir() + "/" + std::string(120, 'd');
  std::filesystem::create_directory(folder);
  MetricsAddress address = AtPath(folder + "/sock");
  OwnDescriptor listener;
  EXPECT_NE(ListenAt(&address, &listener).message().find("characters"), std::string::npos);
  EXPECT_FALSE(listener);
  constexpr std::size_t kMostOfAName = 107;
  const std::string cut = address.path.substr(0, kMostOfAName);
  EXPECT_FALSE(std::filesystem::exists(cut));
  std::filesystem::remove(cut);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringfeed
