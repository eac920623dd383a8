// A process that is shown by RINGFEED_METRICS, from its first read to its end; each in a child, as
// a process decides once.
#include "metrics/watcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "metrics/job_notes.h"
#include "ringfeed/decorators.h"
#include "ringfeed/metrics.h"
#include "tests/metrics/http_client.h"
#include "tests/support/record_data.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

std::string TextOfFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kThreadsAfterFork) GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
    std::string name = testing::TempDir() + "/watch-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    const std::vector<std::size_t> sizes(100, 64);
    WriteTfRecords(folder_ + "/data.tfrecord", 0, sizes);
  }
  void TearDown() override {
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(folder_);
  }

  /// In a child that is shown there, behind its first read. It ends by exit, as programs do.
  ChildResult WhileShown(const std::string& where,
                         const std::function<int(std::string* text)>& body) const {
    return RunInChild([&](std::string* text) {
      setenv("RINGFEED_METRICS", where.c_str(), 1);
      UseMetrics();
      Reader reader = OpenFiles({folder_ + "/data.tfrecord"});
      (void)reader.ReadNext();
      return body(text);
    });
  }
  MetricsAddress Socket() const {
    return {.kind = MetricsAddress::Kind::kUnix, .path = folder_ + "/sock"};
  }
  std::string folder_;
};

constexpr char kSample[] =
    "ringfeed_chain_files_total{chain=\"0:data.tfrecord\",fate=\"read\"} 1\n";

TEST_F(WatcherTest, ASocketServesTextsAndAPage) {
  const ChildResult child = WhileShown("unix:" + folder_ + "/sock", [this](std::string* text) {
    const std::string open =
        TestClient(Socket()).Ask("/metrics", "Accept: application/openmetrics-text\r\n");
    if (open.find(kSample) == std::string::npos || !open.ends_with("# EOF\n")) return 1;
    const std::string older = TestClient(Socket()).Ask("/metrics");
    if (older.find("version=0.0.4") == std::string::npos) return 2;
    const std::string page = TestClient(Socket()).Ask("/");
    if (page.find("<title>ringfeed, live</title>") == std::string::npos) return 3;
    if (!TestClient(Socket()).Ask("/else").starts_with("HTTP/1.1 404")) return 4;
    const std::vector<JobNote> jobs = FindJobs();
    *text = jobs.empty() ? "" : jobs.front().address;
    return 0;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(child.text, "unix:" + folder_ + "/sock");
}

TEST_F(WatcherTest, AFileHasTheLastFiguresOfAProcessThatEnded) {
  const std::string path = folder_ + "/job.prom";
  // std::exit, and not the end of a child, which leaves handlers out.
  const pid_t child = fork();
  if (child == 0) {
    setenv("RINGFEED_METRICS", path.c_str(), 1);
    UseMetrics();
    Reader reader = OpenFiles({folder_ + "/data.tfrecord"});
    while (reader.HasNext()) (void)reader.ReadNext();
    reader.Close();
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const std::string text = TextOfFile(path);
  EXPECT_NE(text.find(kSample), std::string::npos) << text;
  EXPECT_NE(text.find("ringfeed_chain_ended{chain=\"0:data.tfrecord\"} 1"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/ringfeed")) << "its note is gone";
}

TEST_F(WatcherTest, ASocketGoesWithItsProcess) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("RINGFEED_METRICS", ("unix:" + folder_ + "/sock").c_str(), 1);
    UseMetrics();
    Reader reader = OpenFiles({folder_ + "/data.tfrecord"});
    (void)reader.ReadNext();
    std::exit(std::filesystem::exists(folder_ + "/sock") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/sock"));
}

TEST_F(WatcherTest, AnAddressThatIsTakenDoesNotEndTheProgram) {
  OwnDescriptor listener;
  MetricsAddress address = Socket();
  ASSERT_TRUE(ListenAt(&address, &listener).ok());
  const ChildResult child = WhileShown("unix:" + folder_ + "/sock", [](std::string*) { return 5; });
  EXPECT_EQ(child.status, 5);
}

TEST_F(WatcherTest, AChildOfForkHasNoPartInItsParentsSocketAndShowsItselfWhereItCan) {
  if (!kForkBesideThreads) GTEST_SKIP() << "not beside threads under AddressSanitizer";
  const ChildResult child = WhileShown("unix:" + folder_ + "/s-%p", [this](std::string* text) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      const MetricsAddress parents = {.kind = MetricsAddress::Kind::kUnix,
                                      .path = folder_ + "/s-" + std::to_string(getppid())};
      if (!TestClient(parents).Ask("/metrics").starts_with("HTTP/1.1 200")) _exit(1);
      Reader reader = OpenFiles({folder_ + "/data.tfrecord"});
      (void)reader.ReadNext();
      const MetricsAddress own = {.kind = MetricsAddress::Kind::kUnix,
                                  .path = folder_ + "/s-" + std::to_string(getpid())};
      const std::string answer = TestClient(own).Ask("/metrics");
      reader.Close();
      _exit(answer.find("chain=\"0:data.tfrecord\"") != std::string::npos ? 0 : 2);
    }
    int status = 0;
    if (waitpid(grandchild, &status, 0) != grandchild) return 10;
    *text = std::to_string(status);
    // The child's end takes nothing away from the parent.
    const MetricsAddress own = {.kind = MetricsAddress::Kind::kUnix,
                                .path = folder_ + "/s-" + std::to_string(getpid())};
    return TestClient(own).Ask("/metrics").starts_with("HTTP/1.1 200") ? 0 : 11;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(child.text, "0");
}

TEST_F(WatcherTest, AClientLearnsOfTheParentsEndThoughAChildLivesOn) {
  if (!kForkBesideThreads) GTEST_SKIP() << "not beside threads under AddressSanitizer";
  int gone[2];
  ASSERT_EQ(pipe(gone), 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("RINGFEED_METRICS", ("unix:" + folder_ + "/sock").c_str(), 1);
    UseMetrics();
    Reader reader = OpenFiles({folder_ + "/data.tfrecord"});
    (void)reader.ReadNext();
    const bool answers = TestClient(Socket()).Ask("/metrics").starts_with("HTTP/1.1 200");
    if (fork() == 0) {
      char byte = 0;
      (void)close(gone[1]);
      (void)!read(gone[0], &byte, 1);  // until the test lets it go
      _exit(0);
    }
    _exit(answers ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // The fork may return in the child before it does in the grandchild, which has closed it by then.
  bool is_open = true;
  for (int i = 0; is_open && i < 1000; ++i) {
    is_open = TestClient(Socket()).connected();
    if (is_open) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(is_open) << "a child keeps the socket open";
  (void)close(gone[1]);
  (void)close(gone[0]);
}

TEST_F(WatcherTest, WithoutTheVariableThereIsNoThread) {
  const ChildResult child = RunInChild([this](std::string*) {
    unsetenv("RINGFEED_METRICS");
    UseMetrics();
    Reader reader = OpenFiles({folder_ + "/data.tfrecord"});
    (void)reader.ReadNext();
    int shown = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (TextOfFile(task.path() / "comm") == "ringfeed-show\n") ++shown;
    }
    return shown;
  });
  EXPECT_EQ(child.status, 0);
}

// Without a child, so that ThreadSanitizer sees it.
TEST(WatcherStopTest, BehindItsEndAClientIsRefusedAndDoesNotWait) {
  std::string folder = testing::TempDir() + "/stop-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  std::unique_ptr<Watcher> watcher;
  const MetricsAddress any = {.kind = MetricsAddress::Kind::kTcp, .host = "127.0.0.1"};
  ASSERT_TRUE(Watcher::Start(any, &watcher).ok());
  const MetricsAddress address = watcher->address();
  const TestClient silent(address);
  EXPECT_TRUE(TestClient(address).Ask("/metrics").starts_with("HTTP/1.1 200"));
  watcher->Stop();
  EXPECT_EQ(silent.Receive(), "");
  EXPECT_FALSE(TestClient(address).connected()) << "nobody would answer";
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/ringfeed")) << "its note is gone";
  watcher->Stop();
  unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringfeed
