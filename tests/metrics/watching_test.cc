// RINGFEED_METRICS of a program that has no component metrics: each test in a process of its own,
// as a process decides once.
#include "base/live/watching.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "readers/chain/live_chains.h"
#include "ringfeed/decorators.h"
#include "ringfeed/status.h"
#include "tests/support/record_data.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

std::string started_at;

void NoteStart(const std::string& where) { started_at += where + ";"; }

void RefuseStart(const std::string& where) {
  started_at += where + ";";
  throw Error(Status(StatusCode::kInvalidArgument, where + " makes no sense"));
}

int IsWatchedTwice() { return (IsWatched() ? 1 : 0) + (IsWatched() ? 2 : 0); }

TEST(WatchingTest, WithoutTheVariableNobodyLooks) {
  const ChildResult child = RunInChild([](std::string* text) {
    unsetenv(kMetricsVariable);
    OfferWatching(NoteStart);
    const int watched = IsWatchedTwice();
    *text = started_at;
    return watched;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(child.text, "");
}

TEST(WatchingTest, WithItWhatIsOfferedStartsOnce) {
  const ChildResult child = RunInChild([](std::string* text) {
    setenv(kMetricsVariable, "here", 1);
    OfferWatching(NoteStart);
    const int watched = IsWatchedTwice();
    *text = started_at;
    return watched;
  });
  EXPECT_EQ(child.status, 3);
  EXPECT_EQ(child.text, "here;");
}

TEST(WatchingTest, WithoutAnOfferTheProgramIsToldAndGoesOn) {
  const ChildResult child = RunInChild([](std::string*) {
    setenv(kMetricsVariable, "here", 1);
    return IsWatchedTwice();
  });
  EXPECT_EQ(child.status, 0);
}

TEST(WatchingTest, AValueThatMakesNoSenseIsRefusedAtEveryCall) {
  const ChildResult child = RunInChild([](std::string* text) {
    setenv(kMetricsVariable, "nonsense", 1);
    OfferWatching(RefuseStart);
    int refused = 0;
    for (int i = 0; i < 3; ++i) {
      try {
        (void)IsWatched();
      } catch (const Error& error) {
        if (error.status().code() == StatusCode::kInvalidArgument) ++refused;
      }
    }
    *text = started_at;
    return refused;
  });
  EXPECT_EQ(child.status, 3);
  EXPECT_EQ(child.text, "nonsense;");
}

TEST(WatchingTest, ARefusedValueIsAnErrorOfTheFirstReadAndOfEachThatFollows) {
  if (!kThreadsAfterFork) GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
  const std::string path = testing::TempDir() + "/watching.tfrecord";
  const std::size_t sizes[] = {20, 20};
  WriteTfRecords(path, 0, sizes);
  const ChildResult child = RunInChild([&path](std::string* text) {
    setenv(kMetricsVariable, "nonsense", 1);
    OfferWatching(RefuseStart);
    Reader reader = OpenFiles({path});
    int refused = 0;
    for (int i = 0; i < 2; ++i) {
      try {
        (void)reader.ReadNext();
      } catch (const Error& error) {
        *text = error.status().message();
        ++refused;
      }
    }
    return refused;
  });
  EXPECT_EQ(child.status, 2);
  EXPECT_EQ(child.text, "nonsense makes no sense");
  std::filesystem::remove(path);
}

TEST(WatchingTest, UnwatchedChainsEnterNoList) {
  const std::string path = testing::TempDir() + "/unwatched.tfrecord";
  const std::size_t sizes[] = {20, 20};
  WriteTfRecords(path, 0, sizes);
  Reader reader = OpenFiles({path});
  (void)reader.ReadNext();
  EXPECT_EQ(LiveChains().ForEach(1, [](const auto&) {}), 0U);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ringfeed
