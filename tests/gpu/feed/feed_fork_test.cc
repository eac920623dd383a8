#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/export/shared_lease.h"
#include "tests/gpu/feed/counting_rows.h"
#include "tests/support/restrictions.h"

// What a child of fork has of its parent's feeds: none of the threads.

namespace ringfeed {
namespace {

FeedOptions OnTwo() {
  FeedOptions options;
  options.backend = EmulatedDevices::Open(2);
  return options;
}

/// Batches that come until the end. Ends the process where the feed fails.
std::size_t CountLeft(DeviceFeed* feed) {
  std::size_t batches = 0;
  while (feed->Next()) ++batches;
  return batches;
}

/// What the call says, or nothing.
std::string Refusal(const std::function<Status()>& call) {
  try {
    return call().message();
  } catch (const Error& error) {
    return error.what();
  }
}

/// What a child of fork is refused: all that needs the feed's threads or its devices.
std::vector<std::function<Status()>> Calls(DeviceFeed* feed, DeviceLease* lease,
                                           SharedLease* shared) {
  const auto next = [feed](auto... arguments) {
    DeviceLease empty;
    Status status;
    EXPECT_EQ(feed->TryNext(arguments..., &empty, &status), ReadResult::kFailed);
    return status;
  };
  return {
      [feed] { return (void)feed->Next(), Status(); },
      [feed] { return (void)feed->Next(1), Status(); },
      [next] { return next(); },
      [next] { return next(std::size_t{1}); },
      [feed] {
        DeviceLease empty;
        Status status;
        (void)feed->TryNext(&empty, &status, DeadlineAfter(std::chrono::milliseconds(1)));
        return status;
      },
      [feed] { return (void)feed->Position(), Status(); },
      [feed] { return (void)feed->Stats(), Status(); },
      [feed] { return feed->ReInit(), Status(); },
      [feed] { return feed->Restore("{}"), Status(); },
      [feed] { return feed->SeekTo(0), Status(); },
      [feed] { return feed->Close(); },
      [lease] { return (void)lease->WaitHost(), Status(); },
      [lease] { return (void)lease->number(), Status(); },
      [lease] { return lease->Count(), Status(); },
      [shared] { return shared->Count(), Status(); },
      [shared] { return shared->UseOn({}), Status(); },
  };
}

TEST(FeedForkTest, AFeedOfItsParentSaysSoInAChildAndItsEndWaitsForNobody) {
  if (!kThreadsAfterFork || !kForkBesideThreads) {
    GTEST_SKIP() << "the sanitizer's locks do not survive a fork beside threads";
  }
  std::optional<DeviceFeed> feed(std::in_place, CountingBatches(100, 2), OnTwo());
  std::optional<DeviceLease> lease = feed->Next();
  std::shared_ptr<SharedLease> shared = SharedLease::Of(*feed->Next(), {});
  Instance tensors = shared->Tensors();
  const ChildResult child = RunInChild([&](std::string* text) {
    alarm(20);  // one that waits for a thread that is not there would hang
    int number = 0;
    for (const auto& call : Calls(&*feed, &*lease, shared.get())) {
      ++number;
      *text = std::to_string(number) + ": " + Refusal(call);
      if (text->find("was forked") == std::string::npos) return 2;
    }
    // The last of it goes in each of the ways that there are.
    lease->Release();
    feed.reset();
    tensors.clear();
    shared.reset();
    DeviceFeed own(CountingBatches(100, 2), OnTwo());
    return CountLeft(&own) == 50 ? 0 : 3;
  });
  EXPECT_FALSE(child.signalled);
  EXPECT_EQ(child.status, 0) << child.text;
  // It took nothing from its parent.
  EXPECT_EQ(lease->number(), 0U);
  lease.reset();
  tensors.clear();
  shared.reset();
  EXPECT_EQ(CountLeft(&*feed), 48U);
}

TEST(FeedForkTest, ATensorOnADeviceGoesInAChildWithoutAnEffect) {
  if (!kThreadsAfterFork || !kForkBesideThreads) {
    GTEST_SKIP() << "the sanitizer's locks do not survive a fork beside threads";
  }
  Reader reader = DoubleBufferOn(CountingBatches(100, 2), EmulatedDevices::Open(1), 0);
  Instance batch = reader.ReadNext();
  const ChildResult child = RunInChild([&](std::string* text) {
    alarm(20);
    batch.clear();
    try {
      (void)reader.ReadNext();
      return 2;
    } catch (const Error& error) {
      *text = error.what();
    }
    reader = Reader();
    return text->find("was forked") == std::string::npos ? 3 : 0;
  });
  EXPECT_FALSE(child.signalled);
  EXPECT_EQ(child.status, 0) << child.text;
}

}  // namespace
}  // namespace ringfeed
