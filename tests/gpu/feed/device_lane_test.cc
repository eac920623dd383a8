#include "gpu/feed/device_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/feed/host_pins.h"
#include "gpu/feed/settling_order.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/tensor.h"
#include "tests/gpu/feed/forwarding_backend.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kLongNs = 60'000'000'000;

FeedOptions On(std::shared_ptr<DeviceBackend> devices, std::size_t slots = 3) {
  FeedOptions options;
  options.backend = std::move(devices);
  options.devices = {0};
  options.slots = slots;
  return options;
}

FeedItem Item(std::uint64_t number) {
  FeedItem item;
  item.number = number;
  item.rows = item.valid_rows = 1;
  item.batch = {MakeScalar(static_cast<std::int64_t>(number))};
  return item;
}

// A lane that is slow is not one that gets nothing: what to blame depends on it.
TEST(DeviceLaneTest, WhatWasGivenIsOnItsWayUntilItIsTaken) {
  const auto devices = EmulatedDevices::Open(1);
  SettlingOrder order;
  DeviceLane lane(On(devices), 0, std::make_shared<HostPins>(devices, CpuList{}), &order);
  ASSERT_TRUE(lane.Open().ok());
  for (std::uint64_t number = 0; number < 5; ++number) {
    EXPECT_FALSE(lane.HasOnItsWay());
    ASSERT_EQ(lane.TryGive(Item(number)), QueueResult::kOk);
    EXPECT_TRUE(lane.HasOnItsWay());  // in the inbox
    std::size_t slot = 0;
    QueueResult result = QueueResult::kEmpty;
    while (result == QueueResult::kEmpty) {  // until earlier copies let go of a slot
      lane.Feed();
      EXPECT_TRUE(lane.HasOnItsWay());  // in a slot, or about to be
      result = lane.leases().TryTake(&slot);
    }
    ASSERT_EQ(result, QueueResult::kOk);
    EXPECT_FALSE(lane.HasOnItsWay());
    lane.leases().Release(&lane.slot(slot));
  }
  ASSERT_EQ(lane.TryGive(Item(5)), QueueResult::kOk);
  lane.Kill({});
  lane.AwaitCopies(devices->NowNanos() + kLongNs);
  lane.Reset();  // drops it
  EXPECT_FALSE(lane.HasOnItsWay());
  EXPECT_TRUE(lane.Close(devices->NowNanos() + kLongNs).ok());
}

/// Holds a thread up between the two steps of a release, where it asks to.
class SlowRelease final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void NoteHandOver(const void* token) override {
    if (std::exchange(waits, false)) {
      began.store(true);
      began.notify_all();
      goes_on.wait(false);
    }
    ForwardingBackend::NoteHandOver(token);
  }

  static inline thread_local bool waits = false;
  std::atomic<bool> began = false;
  std::atomic<bool> goes_on = false;
};

TEST(DeviceLaneTest, ASlotThatComesBackBesideAResetIsFilledOnce) {
  const auto devices = EmulatedDevices::Open(1);
  const auto slow = std::make_shared<SlowRelease>(devices);
  SettlingOrder order;
  DeviceLane lane(On(slow, 2), 0, std::make_shared<HostPins>(devices, CpuList{}), &order);
  ASSERT_TRUE(lane.Open().ok());
  const auto take = [&](std::size_t* slot) {
    QueueResult result = QueueResult::kEmpty;
    for (int i = 0; i < 1000 && result == QueueResult::kEmpty; ++i) {
      lane.Feed();
      result = lane.leases().TryTake(slot);
      devices->Idle(devices->NowNanos() + 100'000);
    }
    return result;
  };
  std::size_t first = 0;
  ASSERT_EQ(lane.TryGive(Item(0)), QueueResult::kOk);
  ASSERT_EQ(take(&first), QueueResult::kOk);
  std::jthread releasing([&] {
    SlowRelease::waits = true;
    lane.leases().Release(&lane.slot(first));
  });
  slow->began.wait(false);
  lane.Kill({});
  lane.AwaitCopies(devices->NowNanos() + kLongNs);
  lane.Reset();
  slow->goes_on.store(true);
  slow->goes_on.notify_all();
  releasing.join();
  for (std::uint64_t number = 0; number < 2; ++number) {
    ASSERT_EQ(lane.TryGive(Item(number)), QueueResult::kOk);
  }
  std::size_t second = 0;
  ASSERT_EQ(take(&first), QueueResult::kOk);
  ASSERT_EQ(take(&second), QueueResult::kOk);
  EXPECT_NE(first, second);
  EXPECT_EQ(lane.slot(first).item.number, 0u);
  EXPECT_EQ(lane.slot(second).item.number, 1u);
  ASSERT_EQ(lane.TryGive(Item(2)), QueueResult::kOk);
  std::size_t third = 0;
  EXPECT_EQ(take(&third), QueueResult::kEmpty) << "there are two slots, and both are leased";
  lane.leases().Release(&lane.slot(first));
  lane.leases().Release(&lane.slot(second));
  lane.Kill({});
  EXPECT_TRUE(lane.Close(devices->NowNanos() + kLongNs).ok());
}

class DeviceLaneGroupTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(lane_.Open().ok()); }
  void TearDown() override {
    lane_.Kill({});
    EXPECT_TRUE(lane_.Close(devices_->NowNanos() + kLongNs).ok());
  }
  /// The next slot that is ready holds that number.
  void ExpectTaken(std::int64_t number) {
    std::size_t taken = 0;
    ASSERT_EQ(lane_.leases().TryTake(&taken), QueueResult::kOk);
    DeviceSlot& slot = lane_.slot(taken);
    ASSERT_TRUE(lane_.leases().WaitHost(slot).ok());
    std::int64_t seen = -1;
    ASSERT_TRUE(devices_->BindThread(0).ok());
    DeviceStream stream;
    ASSERT_TRUE(devices_->CreateStream(0, StreamPriority::kNormal, &stream).ok());
    ASSERT_TRUE(devices_
                    ->CopyToHost(stream, reinterpret_cast<std::byte*>(&seen), slot.tensors[0].data,
                                 sizeof(seen))
                    .ok());
    ASSERT_TRUE(devices_->SyncStream(stream).ok());
    ASSERT_TRUE(devices_->DestroyStream(stream).ok());
    EXPECT_EQ(seen, number);
    lane_.leases().Release(&lane_.slot(taken));
  }

  static FeedOptions OfFixedSlots(const std::shared_ptr<DeviceBackend>& devices) {
    FeedOptions options = On(devices);
    options.slot_bytes = 256;
    options.fixed_slots = true;
    return options;
  }

  const std::shared_ptr<EmulatedDevices> devices_ = EmulatedDevices::Open(1);
  SettlingOrder order_;
  DeviceLane lane_{OfFixedSlots(devices_), 0, std::make_shared<HostPins>(devices_, CpuList{}),
                   &order_};
};

TEST_F(DeviceLaneGroupTest, SmallBatchesThatWaitAreCopiedByOneCall) {
  ASSERT_EQ(lane_.TryGive(Item(7)), QueueResult::kOk);
  ASSERT_EQ(lane_.TryGive(Item(8)), QueueResult::kOk);
  EXPECT_EQ(lane_.TryGive(Item(9)), QueueResult::kFull);
  lane_.Feed();
  EXPECT_EQ(devices_->CallsOf(DeviceCall::kCopyBatchToDevice), 1U);
  EXPECT_EQ(devices_->CallsOf(DeviceCall::kCopyToDevice), 0U);
  ExpectTaken(7);
  ExpectTaken(8);
}

TEST_F(DeviceLaneGroupTest, WhatFailsComesAfterTheBatchesBeforeIt) {
  FeedItem large = Item(8);
  large.batch = {MakeTensor(std::vector<std::int64_t>(100, 8))};
  ASSERT_EQ(lane_.TryGive(Item(7)), QueueResult::kOk);
  ASSERT_EQ(lane_.TryGive(std::move(large)), QueueResult::kOk);
  lane_.Feed();
  ExpectTaken(7);
  std::size_t slot = 0;
  EXPECT_EQ(lane_.leases().TryTake(&slot), QueueResult::kFailed);
  EXPECT_EQ(lane_.leases().failure().code(), StatusCode::kResourceExhausted);
}

TEST_F(DeviceLaneGroupTest, TheEndComesAfterTheBatchesBeforeIt) {
  ASSERT_EQ(lane_.TryGive(Item(7)), QueueResult::kOk);
  lane_.End({});
  lane_.Feed();
  ExpectTaken(7);
  std::size_t slot = 0;
  EXPECT_EQ(lane_.leases().TryTake(&slot), QueueResult::kClosed);
}

TEST(DeviceLaneTest, ASlotWhoseCopyFailedIsFilledAgainAfterAReset) {
  constexpr std::uint64_t kSlots = 3;
  EmulatedOptions emulated{.simulated = true};
  for (std::uint64_t nth = 1; nth <= kSlots; ++nth) {
    emulated.faults.push_back({.call = DeviceCall::kCopyToDevice, .nth = nth});
  }
  const auto devices = EmulatedDevices::Open(emulated);
  SettlingOrder order;
  DeviceLane lane(On(devices, kSlots), 0, std::make_shared<HostPins>(devices, CpuList{}), &order);
  ASSERT_TRUE(lane.Open().ok());
  std::size_t slot = 0;
  for (std::uint64_t number = 0; number <= kSlots; ++number) {
    ASSERT_EQ(lane.TryGive(Item(number)), QueueResult::kOk);
    QueueResult result = QueueResult::kEmpty;
    for (int look = 0; look < 1000 && result == QueueResult::kEmpty; ++look) {
      lane.Feed();
      result = lane.leases().TryTake(&slot);
      if (result == QueueResult::kEmpty) devices->Idle(devices->NowNanos() + kLongNs / 1000);
    }
    ASSERT_EQ(result, number < kSlots ? QueueResult::kFailed : QueueResult::kOk) << number;
    if (number == kSlots) break;
    lane.Kill({});
    lane.Reset();
  }
  lane.leases().Release(&lane.slot(slot));
  lane.Kill({});
  EXPECT_TRUE(lane.Close(devices->NowNanos() + kLongNs).ok());
  EXPECT_TRUE(devices->Leaks().none());
  EXPECT_TRUE(devices->offences().empty());
}

// What a lane sleeps for. A sleep until a time that is over says whether it would.

/// On a device whose copies are done when time passes alone: in Idle.
class DeviceLaneSleepTest : public testing::Test {
 protected:
  using SleepEnd = DeviceLane::SleepEnd;
  static constexpr std::size_t kSlots = 3;
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
  static constexpr std::int64_t kNapNs = 100'000'000;

  void SetUp() override { ASSERT_TRUE(lane_.Open().ok()); }
  void TearDown() override {
    lane_.Kill({});
    EXPECT_TRUE(lane_.Close(devices_->NowNanos() + kLongNs).ok());
  }

  static EmulatedOptions Simulated() {
    EmulatedOptions options{.simulated = true};
    options.devices[0].link_bytes_per_s = 1e9;
    options.devices[0].copy_latency_ns = 0;
    return options;
  }
  static FeedItem Large(std::uint64_t number) {
    FeedItem item = Item(number);
    item.batch = {MakeTensor(std::vector<std::byte>(kBatchBytes))};
    return item;
  }

  SleepEnd WouldSleep() { return lane_.Sleep(stop_.get_token(), 0); }
  void FeedAll() {
    while (lane_.Feed()) {
    }
  }
  /// Looks when the lane says, until nothing is under way. How often that was.
  int LookUntilCopied() {
    int looks = 0;
    for (; lane_.copying(); ++looks) {
      const std::int64_t look_ns = lane_.NextLook();
      while (devices_->NowNanos() < look_ns) devices_->Idle(look_ns);
      lane_.Feed();
    }
    return looks;
  }
  std::size_t Take() {
    std::size_t slot = 0;
    EXPECT_EQ(lane_.leases().TryTake(&slot), QueueResult::kOk);
    return slot;
  }

  const std::shared_ptr<EmulatedDevices> devices_ = EmulatedDevices::Open(Simulated());
  SettlingOrder order_;
  DeviceLane lane_{On(devices_, kSlots), 0, std::make_shared<HostPins>(devices_, CpuList{}),
                   &order_};
  std::stop_source stop_;
};

TEST_F(DeviceLaneSleepTest, WithNothingToDoItSleeps) {
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);
  EXPECT_EQ(lane_.NextLook(), CopyPace::kNever);
}

TEST_F(DeviceLaneSleepTest, ABatchThatComesDuringACopyIsNotSleptOver) {
  ASSERT_EQ(lane_.TryGive(Large(0)), QueueResult::kOk);
  FeedAll();
  ASSERT_TRUE(lane_.copying());
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);
  ASSERT_EQ(lane_.TryGive(Large(1)), QueueResult::kOk);
  EXPECT_EQ(WouldSleep(), SleepEnd::kHadWork);
}

TEST_F(DeviceLaneSleepTest, ASlotThatComesBackDuringACopyIsNotSleptOver) {
  ASSERT_EQ(lane_.TryGive(Large(0)), QueueResult::kOk);
  FeedAll();
  LookUntilCopied();
  ASSERT_EQ(lane_.TryGive(Large(1)), QueueResult::kOk);
  FeedAll();
  ASSERT_TRUE(lane_.copying());
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);
  lane_.leases().Release(&lane_.slot(Take()));
  EXPECT_EQ(WouldSleep(), SleepEnd::kHadWork);
}

// A wake costs two threads a switch each.
TEST_F(DeviceLaneSleepTest, WhatTheLaneCouldNotActOnWakesItNot) {
  const auto sleep_during = [&](const auto& act) {
    SleepEnd end{};
    std::thread lane([&] { end = lane_.Sleep(stop_.get_token(), devices_->NowNanos() + kNapNs); });
    std::this_thread::sleep_for(std::chrono::nanoseconds(kNapNs / 2));
    act();
    lane.join();
    return end;
  };
  ASSERT_EQ(lane_.TryGive(Large(0)), QueueResult::kOk);
  FeedAll();
  LookUntilCopied();
  const std::size_t first = Take();
  EXPECT_EQ(sleep_during([&] { lane_.leases().Release(&lane_.slot(first)); }), SleepEnd::kTime)
      << "there is no batch";
  for (std::uint64_t number = 1; number <= kSlots; ++number) {
    ASSERT_EQ(lane_.TryGive(Large(number)), QueueResult::kOk);
    FeedAll();
  }
  LookUntilCopied();
  const SleepEnd end =
      sleep_during([&] { EXPECT_EQ(lane_.TryGive(Large(kSlots + 1)), QueueResult::kOk); });
  EXPECT_EQ(end, SleepEnd::kTime) << "there is no slot";
  EXPECT_NE(sleep_during([&] { lane_.leases().Release(&lane_.slot(Take())); }), SleepEnd::kTime);
}

TEST_F(DeviceLaneSleepTest, AStopIsNotSleptOverWhateverTheLaneIsAt) {
  lane_.End({});
  FeedAll();  // it has come to its end before
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);
  stop_.request_stop();
  EXPECT_EQ(WouldSleep(), SleepEnd::kHadWork);
}

// A lane whose batches all wait for their loop has nothing to do, and no core to burn.
TEST_F(DeviceLaneSleepTest, WithoutAFreeSlotNeitherBatchesNorTheEndAreWork) {
  for (std::uint64_t number = 0; number < kSlots; ++number) {
    ASSERT_EQ(lane_.TryGive(Large(number)), QueueResult::kOk);
    FeedAll();
  }
  LookUntilCopied();
  ASSERT_EQ(lane_.TryGive(Large(kSlots)), QueueResult::kOk);
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);
  lane_.leases().Release(&lane_.slot(Take()));
  FeedAll();
  LookUntilCopied();
  lane_.End({});
  FeedAll();
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);
  lane_.leases().Release(&lane_.slot(Take()));
  EXPECT_EQ(WouldSleep(), SleepEnd::kHadWork);
}

TEST_F(DeviceLaneSleepTest, ABatchThatWaitsForAnotherOneIsSleptOver) {
  FeedItem huge = Item(0);
  huge.batch = {MakeTensor(std::vector<std::byte>(SlotCopies::kGroupBytes))};
  ASSERT_EQ(lane_.TryGive(std::move(huge)), QueueResult::kOk);
  ASSERT_EQ(lane_.TryGive(Item(1)), QueueResult::kOk);
  FeedAll();
  ASSERT_EQ(lane_.TryGive(Item(2)), QueueResult::kOk);
  EXPECT_FALSE(lane_.Feed());  // the link has enough to do, and one more may come
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);
  LookUntilCopied();
  EXPECT_EQ(WouldSleep(), SleepEnd::kTime);  // it was copied when there was room
  EXPECT_EQ(devices_->CallsOf(DeviceCall::kCopyToDevice) +
                devices_->CallsOf(DeviceCall::kCopyBatchToDevice),
            3U);
}

TEST_F(DeviceLaneSleepTest, ACopyOfAKnownRateIsLookedAtAFewTimes) {
  const auto copy = [&](std::uint64_t number) {
    EXPECT_EQ(lane_.TryGive(Large(number)), QueueResult::kOk);
    FeedAll();
    const std::uint64_t queries = devices_->CallsOf(DeviceCall::kQuery);
    EXPECT_GT(LookUntilCopied(), 0);
    const std::uint64_t looked = devices_->CallsOf(DeviceCall::kQuery) - queries;
    lane_.leases().Release(&lane_.slot(Take()));
    return looked;
  };
  (void)copy(0);
  EXPECT_LE(copy(1), 4U);  // of a millisecond
}

// By threads: each of these wakes is all that ends the sleep.
class DeviceLaneWakeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(lane_.Open().ok());
    feeding_ = std::jthread([this](const std::stop_token& stop) {
      ASSERT_TRUE(devices_->BindThread(0).ok());
      while (!stop.stop_requested()) {
        if (!lane_.Feed()) (void)lane_.Sleep(stop);
      }
    });
  }
  void TearDown() override {
    feeding_.request_stop();
    lane_.Kill({});
    feeding_.join();
    EXPECT_TRUE(lane_.Close(devices_->NowNanos() + kLongNs).ok());
  }
  /// kOk, kClosed or kFailed, however long it takes.
  QueueResult Take(std::size_t* slot) { return lane_.leases().TakeUntil(slot, kNoDeadline); }

  const std::shared_ptr<EmulatedDevices> devices_ = EmulatedDevices::Open(1);
  SettlingOrder order_;
  DeviceLane lane_{On(devices_), 0, std::make_shared<HostPins>(devices_, CpuList{}), &order_};
  std::jthread feeding_;
};

TEST_F(DeviceLaneWakeTest, BatchesReleasesAndTheEndWakeIt) {
  std::size_t slot = 0;
  for (std::uint64_t number = 0; number < 200; ++number) {
    ASSERT_EQ(lane_.Give(Item(number), {}), QueueResult::kOk);
    ASSERT_EQ(Take(&slot), QueueResult::kOk);
    ASSERT_TRUE(lane_.leases().WaitHost(lane_.slot(slot)).ok());
    lane_.leases().Release(&lane_.slot(slot));
  }
  lane_.End({});
  EXPECT_EQ(Take(&slot), QueueResult::kClosed);
}

TEST_F(DeviceLaneWakeTest, AReleaseAloneWakesIt) {
  std::vector<std::size_t> held(3);
  for (std::uint64_t number = 0; number < 3; ++number) {
    ASSERT_EQ(lane_.Give(Item(number), {}), QueueResult::kOk);
    ASSERT_EQ(Take(&held[number]), QueueResult::kOk);
    ASSERT_TRUE(lane_.leases().WaitHost(lane_.slot(held[number])).ok());
  }
  for (std::uint64_t number = 3; number < 200; ++number) {
    ASSERT_EQ(lane_.Give(Item(number), {}), QueueResult::kOk);
    lane_.leases().Release(&lane_.slot(held[number % 3]));
    ASSERT_EQ(Take(&held[number % 3]), QueueResult::kOk);
    ASSERT_TRUE(lane_.leases().WaitHost(lane_.slot(held[number % 3])).ok());
  }
  for (const std::size_t slot : held) lane_.leases().Release(&lane_.slot(slot));
}

}  // namespace
}  // namespace ringfeed
