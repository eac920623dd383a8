#include "gpu/feed/host_pins.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/numa.h"
#include "base/memory/arena.h"
#include "gpu/feed/feed_core.h"
#include "gpu/feed/memory_batches.h"
#include "ringfeed/arena.h"
#include "ringfeed/decorators.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/open_options.h"

namespace ringfeed {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{2} << 20;

std::shared_ptr<Arena> SmallArena() { return Arena::Create({.bytes = kArenaBytes}); }

void ExpectPinned(HostPins* pins, const Arena& arena) {
  const HostPins::Part part = pins->Pin(arena.data(), arena.bytes());
  EXPECT_TRUE(part.pinned) << pins->failure();
  EXPECT_EQ(part.bytes, arena.bytes());
}

void ExpectNoOffence(const EmulatedDevices& devices) {
  for (const Offence& offence : devices.offences()) ADD_FAILURE() << offence.ToString();
}

TEST(HostPinsTest, AnArenaGoesWithItsOwnersAndItsRegistrationWithIt) {
  const auto devices = EmulatedDevices::Open(1);
  const auto pins = HostPins::Of(devices, {});
  std::shared_ptr<Arena> arena = SmallArena();
  const std::shared_ptr<Arena> stays = SmallArena();
  ExpectPinned(pins.get(), *arena);
  ExpectPinned(pins.get(), *stays);
  EXPECT_EQ(devices->Leaks().registrations, 2U);
  const std::weak_ptr<Arena> watched = arena;
  arena.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(devices->Leaks().registrations, 1U);
  ExpectPinned(pins.get(), *stays);
  EXPECT_EQ(devices->CallsOf(DeviceCall::kRegisterHost), 2U);
  ExpectNoOffence(*devices);
}

int PolicyAt(const std::byte* data) {
  int policy = -1;
  EXPECT_EQ(syscall(SYS_get_mempolicy, &policy, nullptr, 0, data, MPOL_F_ADDR), 0);
  return policy;
}

/// Rows that look, before the first one comes, at what the kernel was told of an arena's end.
class LookingRows final : public InstanceSource {
 public:
  LookingRows(std::shared_ptr<PinnedArena> arena, int* policy)
      : arena_(std::move(arena)), policy_(policy) {}

  ReadResult ReadNext(Instance* row, std::stop_token, Status*) override {
    if (rows_++ == 100) return ReadResult::kEnd;
    const Arena& arena = *arena_->arena();
    if (rows_ == 1) *policy_ = PolicyAt(arena.data() + arena.bytes() - 1);
    *row = {MakeScalar(7)};
    return ReadResult::kRecord;
  }
  bool ReInit() override { return rows_ = 0, true; }

 private:
  const std::shared_ptr<PinnedArena> arena_;
  int* const policy_;
  int rows_ = 0;
};

// Pages that io_uring has pinned do not move any more.
TEST(HostPinsTest, MemoryIsPutCloseToTheDevicesBeforeItIsReadInto) {
  {
    const std::shared_ptr<Arena> probe = SmallArena();
    if (!PreferNode(probe->data(), probe->bytes(), OnlineNodes().front()).ok()) {
      GTEST_SKIP() << "mbind is not allowed here";
    }
  }
  OpenOptions open;
  open.arena = std::make_shared<PinnedArena>(std::size_t{64} << 20);
  int policy = -1;
  FeedOptions options;
  options.backend = EmulatedDevices::Open(1);
  options.devices = {0};
  Reader rows = FromInstanceSource(std::make_unique<LookingRows>(open.arena, &policy),
                                   {{"x", DType::kInt32, {}}}, open);
  auto supply = SupplyOf(Batch(std::move(rows), {.size = 10}), options);
  const auto core = FeedCore::Start(std::move(supply), options, {.nodes = {OnlineNodes().front()}});
  DeviceLease lease;
  Status status;
  ASSERT_EQ(core->TryNext(&lease, &status), ReadResult::kRecord) << status.ToString();
  EXPECT_EQ(policy, MPOL_PREFERRED);
  lease.Release();
  EXPECT_TRUE(core->Close().ok());
}

TEST(HostPinsTest, MemoryThatIsMappedAgainAtTheSamePlaceIsRegisteredAnew) {
  const auto devices = EmulatedDevices::Open(1);
  const auto pins = HostPins::Of(devices, {});
  std::shared_ptr<Arena> arena = SmallArena();
  const std::byte* const place = arena->data();
  ExpectPinned(pins.get(), *arena);
  arena.reset();
  // The system gives out what was unmapped last; other threads of the process may be in between.
  std::vector<std::shared_ptr<Arena>> others;
  for (arena = SmallArena(); arena->data() != place && others.size() < 100; arena = SmallArena()) {
    others.push_back(std::move(arena));
  }
  ASSERT_EQ(arena->data(), place);
  ExpectPinned(pins.get(), *arena);
  EXPECT_EQ(devices->CallsOf(DeviceCall::kRegisterHost), 2U);
  EXPECT_EQ(devices->CallsOf(DeviceCall::kUnregisterHost), 1U);
  ExpectNoOffence(*devices);
}

TEST(HostPinsTest, AnArenaKeepsNoBackendAliveAfterItsFeeds) {
  const std::shared_ptr<Arena> arena = SmallArena();
  auto devices = EmulatedDevices::Open(1);
  auto pins = HostPins::Of(devices, {});
  ExpectPinned(pins.get(), *arena);
  const std::weak_ptr<EmulatedDevices> watched = devices;
  pins.reset();
  EXPECT_TRUE(devices->Leaks().none());
  devices.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(HostPinsTest, AFeedThatGoesOnLetsTheMemoryOfOneThatEndedGo) {
  constexpr std::size_t kBatchBytes = std::size_t{64} << 10;
  const auto devices = EmulatedDevices::Open(1);
  FeedOptions options;
  options.backend = devices;
  options.devices = {0};
  const auto take_one = [](FeedCore* feed) {
    DeviceLease lease;
    Status status;
    ASSERT_EQ(feed->TryNext(&lease, &status), ReadResult::kRecord) << status.ToString();
    ASSERT_NO_THROW((void)lease.WaitHost());
  };
  const MemoryBatches batches(kBatchBytes, 2);
  const auto stays = FeedCore::Start(batches.Supply(1000), options);
  take_one(stays.get());
  std::weak_ptr<Arena> watched;
  {
    const MemoryBatches others(kBatchBytes, 2);
    watched = Arena::Containing(others.batch(0).front().data);
    EXPECT_FALSE(watched.expired());
    const auto ends = FeedCore::Start(others.Supply(10), options);
    take_one(ends.get());
    EXPECT_EQ(devices->Leaks().registrations, 2U);
    EXPECT_TRUE(ends->Close().ok());
  }
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(devices->Leaks().registrations, 1U);
  take_one(stays.get());
  EXPECT_EQ(stays->Stats().pinning, "");
  EXPECT_TRUE(stays->Close().ok());
  ExpectNoOffence(*devices);
}

/// Batches of two rows, each in an arena of its own, which ends when the last device has its part.
class OwnArenas final : public BatchSupply {
 public:
  explicit OwnArenas(int batches) : batches_(batches) {}
  SupplyResult Take(SuppliedBatch* batch, Status*, const std::stop_token&) override {
    if (next_++ == batches_) return SupplyResult::kEnd;
    const std::shared_ptr<Arena> arena = SmallArena();
    const SlabRun run = arena->Allocate(kRowBytes * 2);
    Tensor tensor;
    tensor.shape = {2, static_cast<std::int64_t>(kRowBytes)};
    tensor.data = run.data;
    tensor.bytes = kRowBytes * 2;
    tensor.owner =
        std::shared_ptr<const void>(run.data, [arena, run](const void*) { arena->Free(run); });
    batch->tensors = {std::move(tensor)};
    return SupplyResult::kBatch;
  }
  void ReInit() override { next_ = 0; }

 private:
  static constexpr std::size_t kRowBytes = 4096;
  const int batches_;
  int next_ = 0;
};

TEST(HostPinsTest, AnArenaEndsBehindTheCopiesOfEveryDevice) {
  for (const SchedulePolicy policy :
       {SchedulePolicy::kTimed, SchedulePolicy::kEager, SchedulePolicy::kLazy}) {
    EmulatedOptions emulated{.simulated = true, .policy = policy};
    emulated.devices.resize(2);
    emulated.devices[1].link_bytes_per_s = 1e9;
    const auto devices = EmulatedDevices::Open(emulated);
    FeedOptions options;
    options.backend = devices;
    options.devices = {0, 1};
    options.distribution = Distribution::kSplit;
    FeedDriveOptions drive;
    drive.act_as = [&](int actor) { devices->SetActor(actor); };
    const auto feed = FeedCore::Start(std::make_unique<OwnArenas>(10), options, drive);
    DeviceLease lease;
    Status status;
    int parts = 0;
    while (feed->TryNext(&lease, &status) == ReadResult::kRecord) {
      ASSERT_NO_THROW((void)lease.WaitHost());
      ++parts;
    }
    EXPECT_EQ(parts, 20) << status.ToString();
    (void)feed->Pump();
    EXPECT_LE(devices->Leaks().registrations, 2U);  // what is not seen done yet
    EXPECT_EQ(devices->CallsOf(DeviceCall::kRegisterHost), 10U);
    EXPECT_TRUE(feed->Close().ok());
    ExpectNoOffence(*devices);
  }
}

// Arenas end, feeds open and the last feed closes, all at the same time.
TEST(HostPinsTest, ArenasMayEndWhileTheLastFeedCloses) {
  constexpr int kRounds = 300;
  const auto devices = EmulatedDevices::Open(1);
  std::atomic<int> ready = 0;
  const auto meet = [&ready](int round) {
    ready.fetch_add(1);
    while (ready.load() < 3 * (round + 1)) std::this_thread::yield();
  };
  std::array<std::shared_ptr<Arena>, 3> arenas;
  const auto run = [&](std::size_t thread) {
    for (int round = 0; round < kRounds; ++round) {
      arenas[thread] = SmallArena();
      meet(2 * round);
      std::array<std::shared_ptr<Arena>, 3> held = arenas;
      auto pins = HostPins::Of(devices, {});
      for (const auto& arena : held) ExpectPinned(pins.get(), *arena);
      meet(2 * round + 1);
      arenas[thread].reset();
      if (round % 2 == 0) pins.reset();
      for (auto& arena : held) arena.reset();
    }
  };
  {
    const std::jthread second(run, 1);
    const std::jthread third(run, 2);
    run(0);
  }
  EXPECT_TRUE(devices->Leaks().none()) << devices->Leaks().registrations;
  ExpectNoOffence(*devices);
}

// The next one registers what the last one still unregisters, unless it waits.
TEST(HostPinsTest, AFeedMayOpenWhileTheLastOneCloses) {
  constexpr int kRounds = 2'000;
  const auto devices = EmulatedDevices::Open(1);
  const std::shared_ptr<Arena> arena = SmallArena();
  const auto run = [&] {
    for (int round = 0; round < kRounds && devices->offences().empty(); ++round) {
      ExpectPinned(HostPins::Of(devices, {}).get(), *arena);
    }
  };
  {
    const std::jthread second(run);
    const std::jthread third(run);
    run();
  }
  EXPECT_TRUE(devices->Leaks().none());
  ExpectNoOffence(*devices);
}

TEST(HostPinsTest, IsOneForAllWhoShareRegistrations) {
  EmulatedOptions options;
  options.shared_registrations = true;
  const auto one = EmulatedDevices::Open(options);
  const auto other = EmulatedDevices::Open(options);
  const std::shared_ptr<Arena> arena = SmallArena();
  auto first = HostPins::Of(one, {});
  const auto second = HostPins::Of(other, {});
  ExpectPinned(first.get(), *arena);
  ExpectPinned(second.get(), *arena);
  first.reset();
  ExpectPinned(second.get(), *arena);
  ExpectNoOffence(*one);
  ExpectNoOffence(*other);
}

}  // namespace
}  // namespace ringfeed
