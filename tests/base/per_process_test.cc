#include "base/per_process.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

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

}  // namespace
}  // namespace ringfeed
