#include "base/per_process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/process_number.h"
#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

struct Counted {
  Counted() { made.fetch_add(1); }
  ~Counted() { made.fetch_sub(1); }
  static inline std::atomic<int> made{0};
  int value = 0;
};

TEST(PerProcess, AllThreadsGetOneObject) {
  for (int round = 0; round < 50; ++round) {
    // As a static one would be, which never goes.
    static auto* const kept = new std::vector<PerProcess<Counted>*>;
    auto* const own = kept->emplace_back(new PerProcess<Counted>);
    std::vector<Counted*> found(4);
    {
      std::vector<std::jthread> threads;
      for (Counted*& each : found) threads.emplace_back([&each, own] { each = &own->Get(); });
    }
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1U);
    EXPECT_EQ(&own->Get(), found[0]);
    EXPECT_EQ(Counted::made.load(), round + 1) << "those that came second are gone";
  }
}

TEST(PerProcess, AChildOfForkGetsAnotherOneAndLeavesItsParentsAlone) {
  static constinit PerProcess<Counted> own;
  own.Get().value = 7;
  const ChildResult child = RunInChild([&](std::string* /*text*/) {
    if (own.Get().value != 0) return 1;
    own.Get().value = 8;
    return own.Get().value == 8 ? 0 : 2;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(own.Get().value, 7);
}

// As in a container: both are process 1 of their namespace.
TEST(PerProcess, AChildWithItsParentsProcessIdGetsAnotherOne) {
  static constinit PerProcess<Counted> own;
  const ChildResult first = RunInChild([&](std::string* text) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0 && unshare(CLONE_NEWPID) != 0) return 77;
    const pid_t outer = fork();
    if (outer == 0) {
      own.Get().value = 7;
      if (getpid() != 1 || unshare(CLONE_NEWPID) != 0) _exit(77);
      const pid_t inner = fork();
      if (inner == 0) _exit(getpid() == 1 && own.Get().value == 0 ? 0 : 1);
      int status = 0;
      waitpid(inner, &status, 0);
      _exit(inner < 0 ? 77 : WEXITSTATUS(status));
    }
    if (outer < 0) return 77;
    int status = 0;
    waitpid(outer, &status, 0);
    *text = std::to_string(status);
    return WEXITSTATUS(status);
  });
  if (first.status == 77) GTEST_SKIP() << "PID namespaces cannot be made here";
  EXPECT_EQ(first.status, 0) << first.text;
}

TEST(ProcessNumber, IsAnotherOneInEachChildAndItsChildren) {
  const std::uint64_t own = ProcessNumber();
  EXPECT_NE(own, 0U);
  EXPECT_EQ(ProcessNumber(), own);
  const ChildResult child = RunInChild([&](std::string* /*text*/) {
    const std::uint64_t childs = ProcessNumber();
    const ChildResult grandchild = RunInChild([&](std::string* /*text*/) {
      return ProcessNumber() != own && ProcessNumber() != childs ? 0 : 1;
    });
    return childs != own && childs == ProcessNumber() ? grandchild.status : 2;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(ProcessNumber(), own);
}

}  // namespace
}  // namespace ringfeed
