#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/readers/pipeline_fixture.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

class ForkTest : public PipelineTest {
 protected:
  static bool ReadsAll(const std::vector<std::string>& files, const OpenOptions& options) {
    return Drain(Batches(OpenFiles(files, options), 10)).ids.size() == 100;
  }
};

// Its parent's threads hold this and that lock at the moment of the fork.
TEST_F(ForkTest, AChildOpensReadersOfItsOwnWhateverThreadsOfItsParentDo) {
  if (!kThreadsAfterFork || !kForkBesideThreads) {
    GTEST_SKIP() << "the sanitizer's locks do not survive a fork beside threads";
  }
  const auto files = MakeFiles(2, 50, 8, 200);
  for (const IoPath path : {IoPath::kPread, IoPath::kMmap}) {
    OpenOptions options;
    options.threads = 1;
    options.io.path = path;
    // In a child, since the default arena of this process is not to be small.
    const ChildResult parent = RunInChild([&](std::string* text) {
      setenv("RINGFEED_ARENA_BYTES", "16M", 1);
      std::atomic<bool> ends{false};
      std::atomic<bool> reads{true};
      std::thread busy([&] {
        while (!ends.load()) reads = reads.load() && ReadsAll(files, options);
      });
      int bad = 0;
      for (int round = 0; round < 100 && bad == 0; ++round) {
        const pid_t child = fork();
        if (child == 0) {
          alarm(20);  // one that waits for a lock that nobody opens would hang
          _exit(ReadsAll(files, options) ? 0 : 1);
        }
        if (child < 0 || waitpid(child, &bad, 0) != child) bad = -1;
      }
      ends = true;
      busy.join();
      if (bad != 0) *text = "a child ended with " + std::to_string(bad);
      return bad == 0 && reads.load() ? 0 : 1;
    });
    EXPECT_EQ(parent.status, 0) << parent.text;
  }
}

TEST_F(ForkTest, AReaderThatItsParentReadsSaysWhyItCannotBeReadInAChild) {
  if (!kThreadsAfterFork || !kForkBesideThreads) {
    GTEST_SKIP() << "the sanitizer's locks do not survive a fork beside threads";
  }
  const auto files = MakeFiles(2, 50, 8, 200);
  Reader read = Batches(OpenFiles(files, Options()), 10);
  OpenOptions options;
  options.threads = 1;
  Reader unread = Batches(OpenFiles(files, options), 10);
  unread.MakeIndex(IndexPurpose::kCounting);
  Instance held = read.ReadNext();
  const ChildResult child = RunInChild([&](std::string* text) {
    alarm(20);
    setenv("RINGFEED_ARENA_BYTES", "64M", 1);
    using Call = std::function<void(Reader*)>;
    const Call calls[] = {
        [](Reader* reader) { (void)reader->ReadNext(); },
        [](Reader* reader) { (void)reader->HasNext(); },
        [](Reader* reader) { (void)reader->Position(); },
        [](Reader* reader) { (void)reader->Stats(); },
        [](Reader* reader) { reader->ReInit(); },
        [](Reader* reader) { reader->ResetAll(); },
        [](Reader* reader) { reader->Close(); },
    };
    for (const Call& call : calls) {
      try {
        call(&read);
        return 2;
      } catch (const Error& error) {
        *text = error.what();
        if (text->find("was forked") == std::string::npos) return 3;
      }
    }
    // What the parent has not read yet is the child's to read, and its own end waits for nobody.
    const bool reads = Drain(std::move(unread)).ids.size() == 100;
    held = Instance();
    read = Reader();
    return reads ? 0 : 4;
  });
  EXPECT_FALSE(child.signalled);
  EXPECT_EQ(child.status, 0) << child.text;
}

}  // namespace
}  // namespace ringfeed
