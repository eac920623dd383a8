#include "metrics/own_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "tests/support/restrictions.h"

namespace ringfeed {
namespace {

OwnDescriptor Event() {
  return OwnDescriptor::Open([] { return eventfd(0, EFD_CLOEXEC); });
}

bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

TEST(OwnDescriptorTest, ItIsClosedWithItsOwner) {
  OwnDescriptor first = Event();
  const int number = first.get();
  OwnDescriptor second = std::move(first);
  EXPECT_TRUE(IsOpen(number));
  second = {};
  EXPECT_FALSE(IsOpen(number));
}

TEST(OwnDescriptorTest, AChildOfForkHasNoneOfItAndClosesNothingOfItsOwn) {
  OwnDescriptor own = Event();
  const ChildResult child = RunInChild([&own](std::string*) {
    if (IsOpen(own.get())) return 1;
    int reused = eventfd(0, EFD_CLOEXEC);
    while (reused >= 0 && reused < own.get()) reused = eventfd(0, EFD_CLOEXEC);
    if (reused != own.get()) return 2;
    own.Close();
    return IsOpen(reused) ? 0 : 3;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_TRUE(IsOpen(own.get())) << "the parent's is as it was";
}

TEST(OwnDescriptorTest, OneThatWasOpenedBeforeIsKeptFromChildrenToo) {
  const OwnDescriptor kept = OwnDescriptor::Keep(eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(kept);
  const ChildResult child =
      RunInChild([&kept](std::string*) { return IsOpen(kept.get()) ? 1 : 0; });
  EXPECT_EQ(child.status, 0);
  EXPECT_TRUE(IsOpen(kept.get()));
  EXPECT_FALSE(OwnDescriptor::Keep(open("/no/such/file", O_RDONLY)));
  EXPECT_EQ(errno, ENOENT);
}

TEST(OwnDescriptorTest, MoreThanCanBeNotedAreRefused) {
  std::vector<OwnDescriptor> all;
  while (all.size() < 1000) {
    all.push_back(Event());
    if (!all.back()) break;
  }
  EXPECT_FALSE(all.back());
  EXPECT_EQ(errno, EMFILE);
  EXPECT_GE(all.size(), 32U);
  const int open_number = eventfd(0, EFD_CLOEXEC);
  EXPECT_FALSE(OwnDescriptor::Keep(open_number));
  EXPECT_FALSE(IsOpen(open_number)) << "what cannot be kept is closed";
  const OwnDescriptor failed = [&all] {
    all.clear();
    return OwnDescriptor::Open([] { return open("/no/such/file", O_RDONLY); });
  }();
  EXPECT_FALSE(failed);
}

}  // namespace
}  // namespace ringfeed
