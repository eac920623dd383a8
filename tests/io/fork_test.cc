#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "io/file_mapping.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "tests/support/pattern_file.h"
#include "tests/support/restrictions.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

// A child whose lock nobody will open again hangs: the kernel's alarm ends it.
constexpr unsigned kLongestChild = 20;

class IoForkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kThreadsAfterFork || !kForkBesideThreads) {
      GTEST_SKIP() << "the sanitizer's locks do not survive a fork beside threads";
    }
    WritePatternFile(path_, kBytes);
  }

  /// Forks again and again while another thread does `other`; the signal that ended a child, or its
  /// exit status, where one was not fine.
  static int ForkBeside(const std::function<void()>& other, const std::function<bool()>& child) {
    std::atomic<bool> ends{false};
    std::thread busy([&] {
      while (!ends.load()) other();
    });
    int bad = 0;
    for (int round = 0; round < StressRounds(300) && bad == 0; ++round) {
      const pid_t process = fork();
      if (process == 0) {
        alarm(kLongestChild);
        _exit(child() ? 0 : 1);
      }
      if (process < 0 || waitpid(process, &bad, 0) != process) bad = -1;
    }
    ends = true;
    busy.join();
    return bad;
  }

  static constexpr std::size_t kBytes = 65536;
  const TempDir directory_;
  const std::string path_ = directory_.File("data");
};

TEST_F(IoForkTest, AChildReadsThroughAPoolWhateverThreadsOfItsParentDo) {
  const IoOptions options;
  const OpenInputResult opened = OpenInput(path_, options);
  ASSERT_TRUE(opened.status.ok());
  const auto read = [&] {
    const std::unique_ptr<ReadEngine> engine = MakePoolEngine(options);
    AlignedBuffer buffer(4096);
    ReadRequest request{opened.file.get(), 0, buffer.data(), 4096};
    ReadRequest* asked = &request;
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    return engine->Submit({&asked, 1}) == 1 && engine->Reap({&asked, 1}, soon) == 1 &&
           FirstDifference(buffer.span(), 0) == buffer.size();
  };
  EXPECT_EQ(ForkBeside([&] { (void)MakePoolEngine(options); }, read), 0);
}

TEST_F(IoForkTest, AChildMapsFilesWhateverThreadsOfItsParentDo) {
  IoOptions options;
  options.path = IoPath::kMmap;
  const auto map = [&] {
    const OpenInputResult opened = OpenInput(path_, options, {.may_map = true});
    return opened.status.ok() && !opened.file->mapping().empty();
  };
  EXPECT_EQ(ForkBeside([&] { (void)map(); }, map), 0);
}

}  // namespace
}  // namespace ringfeed
