#include "base/live/live_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

using IntList = LiveList<int>;

struct SeenMember {
  std::size_t number = 0;
  std::string name;
  bool ended = false;
  int count = 0;
  bool operator==(const SeenMember&) const = default;
};

std::vector<SeenMember> All(const IntList& list, std::size_t most = 100) {
  std::vector<SeenMember> members;
  (void)list.ForEach(most, [&](const auto& seen) {
    members.push_back({seen.number, seen.name, seen.ended, seen.counts});
  });
  return members;
}

IntList::Count Counting(int value) {
  return [value](int* count) {
    *count = value;
    return true;
  };
}

TEST(LiveListTest, AMemberIsSeenUntilItLeavesAndItsLastCountUntilAnotherTakesItsNumber) {
  IntList list;
  auto first = list.Enter("a", Counting(1));
  auto second = list.Enter("b", Counting(2));
  EXPECT_EQ(All(list), (std::vector<SeenMember>{{0, "a", false, 1}, {1, "b", false, 2}}));
  first.Leave();
  EXPECT_EQ(All(list), (std::vector<SeenMember>{{0, "a", true, 1}, {1, "b", false, 2}}));
  auto third = list.Enter("c", Counting(3));
  EXPECT_EQ(All(list), (std::vector<SeenMember>{{0, "c", false, 3}, {1, "b", false, 2}}));
}

TEST(LiveListTest, WhatCannotBeCountedNowStandsAsItWasSeenLast) {
  IntList list;
  bool can = false;
  auto member = list.Enter("a", [&can](int* count) {
    if (can) ++*count;
    return can;
  });
  EXPECT_TRUE(All(list).empty()) << "it was never counted";
  can = true;
  EXPECT_EQ(All(list).front().count, 1);
  can = false;
  EXPECT_EQ(All(list).front().count, 1);
  can = true;
  member.Leave();
  EXPECT_EQ(All(list).front().count, 2) << "leaving counts a last time";
}

TEST(LiveListTest, WithoutMemoryToCountWhatWasSeenLastStands) {
  IntList list;
  auto member = list.Enter("a", [](int* count) -> bool {
    if (++*count > 1) throw std::bad_alloc();
    return true;
  });
  EXPECT_EQ(All(list).size(), 1U);
  EXPECT_EQ(All(list).size(), 1U);
  member.Leave();  // called by destructors
  EXPECT_TRUE(All(list).front().ended);
}

TEST(LiveListTest, OnlySoManyAreLookedAtAndAllAreTold) {
  IntList list;
  std::vector<IntList::Membership> members;
  for (int i = 0; i < 10; ++i) members.push_back(list.Enter("m", Counting(i)));
  std::size_t seen = 0;
  EXPECT_EQ(list.ForEach(3, [&seen](const auto&) { ++seen; }), 10U);
  EXPECT_EQ(seen, 3U);
}

TEST(LiveListTest, WhatLeftIsNotCalledAgain) {
  // As a destructor would be: what the count reads is gone behind Leave.
  IntList list;
  std::atomic<bool> over{false};
  std::jthread looks([&] {
    while (!over.load()) (void)All(list);
  });
  for (int round = 0; round < 2000; ++round) {
    auto value = std::make_unique<std::atomic<int>>(round);
    auto member = list.Enter("m", [&value](int* count) {
      *count = value->load();
      return true;
    });
    member.Leave();
    value.reset();
  }
  over.store(true);
  looks.join();
  EXPECT_EQ(All(list).size(), 1U) << "one number serves those that come one after another";
}

TEST(LiveListTest, AChildOfForkLeavesWithoutTheLocksOfItsParent) {
  if (!kForkBesideThreads) GTEST_SKIP() << "not beside threads under AddressSanitizer";
  IntList list;
  std::atomic<bool> looked_at{false};
  std::atomic<bool> go_on{false};
  auto member = std::make_unique<IntList::Membership>(list.Enter("m", [&](int*) {
    looked_at.store(true);
    looked_at.notify_all();
    go_on.wait(false);
    return true;
  }));
  std::jthread looks([&list] { (void)All(list); });
  looked_at.wait(false);  // from here on the other thread holds the member's lock
  const ChildResult child = RunInChild([&](std::string*) {
    member.reset();
    return 7;
  });
  EXPECT_FALSE(child.signalled);
  EXPECT_EQ(child.status, 7);
  go_on.store(true);
  go_on.notify_all();
}

}  // namespace
}  // namespace ringfeed
