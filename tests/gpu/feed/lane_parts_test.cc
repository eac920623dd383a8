// The parts of a lane, each by itself.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "gpu/feed/batch_settling.h"
#include "gpu/feed/lane_timeline.h"
#include "gpu/feed/slot_copies.h"
#include "gpu/feed/slot_leases.h"
#include "gpu/feed/slot_memory.h"
#include "gpu/feed/transfer_tally.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/devices/timeline.h"
#include "tests/gpu/feed/forwarding_backend.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kLongNs = 60'000'000'000;

FeedItem ItemOf(std::uint64_t number, std::size_t bytes = 8) {
  FeedItem item;
  item.number = number;
  item.rows = item.valid_rows = item.most_rows = 1;
  item.batch = {MakeTensor(std::vector<std::byte>(bytes, static_cast<std::byte>(number)))};
  return item;
}

class LanePartsTest : public testing::Test {
 protected:
  static constexpr std::size_t kSlots = 3;

  static std::shared_ptr<EmulatedDevices> Simulated() {
    return EmulatedDevices::Open(EmulatedOptions{.simulated = true});
  }
  void SetUp() override { ASSERT_TRUE(devices_->BindThread(0).ok()); }
  static FeedOptions On(std::shared_ptr<DeviceBackend> devices) {
    FeedOptions options;
    options.backend = std::move(devices);
    options.devices = {0};
    return options;
  }
  void TearDown() override {
    EXPECT_TRUE(devices_->Leaks().none());
    EXPECT_TRUE(devices_->offences().empty()) << devices_->offences().front().ToString();
  }
  std::int64_t Until() const { return devices_->NowNanos() + kLongNs; }

  const std::shared_ptr<EmulatedDevices> devices_ = Simulated();
  const FeedOptions options_ = On(devices_);
  std::vector<DeviceSlot> slots_{kSlots};
  LaneTimeline no_timeline_{devices_, nullptr, 0};
};

class SlotMemoryTest : public LanePartsTest {
 protected:
  void Plan(std::size_t bytes, DeviceSlot* slot) {
    slot->item = ItemOf(7, bytes);
    ASSERT_TRUE(slot->plan.Make(slot->item.batch, {}).ok());
  }
};

TEST_F(SlotMemoryTest, ASlotGrowsByAQuarterAndGivesBackWhatItHad) {
  SlotMemory memory(options_, 0);
  DeviceSlot& slot = slots_[0];
  Plan(1000, &slot);
  ASSERT_TRUE(memory.Fit(&slot).ok());
  std::byte* const first = slot.memory;
  Plan(900, &slot);
  EXPECT_FALSE(memory.Grows(slot));
  ASSERT_TRUE(memory.Fit(&slot).ok());
  EXPECT_EQ(slot.memory, first);
  EXPECT_EQ(memory.grown_slots(), 0u);
  Plan(5000, &slot);
  EXPECT_TRUE(memory.Grows(slot));
  ASSERT_TRUE(memory.Fit(&slot).ok());
  EXPECT_EQ(slot.capacity, 6250u);
  EXPECT_EQ(devices_->Leaks().allocations, 1u);
  EXPECT_EQ(memory.grown_slots(), 1u);
  EXPECT_TRUE(memory.Free(&slot).ok());
}

TEST_F(SlotMemoryTest, IfMemoryIsShortASlotGrowsToWhatItNeeds) {
  const auto small = EmulatedDevices::Open(
      EmulatedOptions{.devices = {EmulatedDevice{.memory_bytes = 10'000}}, .simulated = true});
  SlotMemory memory(On(small), 0);
  for (DeviceSlot* const slot : {&slots_[0], &slots_[1]}) {
    Plan(4000, slot);
    ASSERT_TRUE(memory.Fit(slot).ok());
  }
  Plan(5500, &slots_[0]);
  const Status status = memory.Fit(&slots_[0]);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(slots_[0].capacity, 5500u);
  Plan(6001, &slots_[1]);
  EXPECT_EQ(memory.Fit(&slots_[1]).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(memory.Free(&slots_[0]).ok());
  EXPECT_TRUE(memory.Free(&slots_[1]).ok());
  EXPECT_TRUE(small->Leaks().none());
}

TEST_F(SlotMemoryTest, AFixedSlotRefusesABatchThatDoesNotFit) {
  FeedOptions options = options_;
  options.fixed_slots = true;
  options.slot_bytes = 2000;
  SlotMemory memory(options, 0);
  DeviceSlot& slot = slots_[0];
  Plan(1000, &slot);
  ASSERT_TRUE(memory.Fit(&slot).ok());
  EXPECT_EQ(slot.capacity, 2000u);
  Plan(2001, &slot);
  const Status status = memory.Fit(&slot);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("batch 7 needs 2001 bytes"), std::string::npos)
      << status.message();
  EXPECT_TRUE(memory.Free(&slot).ok());
}

/// A program's allocator over the devices' own: counts, and can refuse.
struct CountedMemory {
  std::shared_ptr<DeviceBackend> devices;
  std::size_t allocated = 0;
  std::size_t freed = 0;
  std::size_t most_bytes = ~std::size_t{0};
  std::size_t off_by = 0;  ///< where it begins in what was allocated
  Status no_free{};
  DeviceStream stream{};

  SlotAllocator Functions() {
    return {[this](int device, std::size_t bytes, DeviceStream on, std::byte** data) {
              stream = on;
              if (bytes > most_bytes) return Status(StatusCode::kResourceExhausted, "the pool");
              if (bytes == 7777) throw std::runtime_error("no sevens");
              const Status status = devices->AllocDevice(device, bytes + off_by, data);
              *data += off_by;
              allocated += status.ok() ? 1 : 0;
              return status;
            },
            [this](int device, std::byte* data, std::size_t, DeviceStream on) {
              EXPECT_EQ(on, stream);
              ++freed;
              const Status status = devices->FreeDevice(device, data - off_by);
              return status.ok() ? no_free : status;
            }};
  }
};

TEST_F(SlotMemoryTest, TheProgramsMemoryIsAskedForAndGivenBack) {
  CountedMemory program{.devices = devices_};
  FeedOptions options = options_;
  options.slot_allocator = program.Functions();
  SlotMemory memory(options, 0);
  const DeviceStream stream{this};
  memory.set_stream(stream);
  DeviceSlot& slot = slots_[0];
  ASSERT_TRUE(memory.Make(&slot).ok());
  EXPECT_EQ(slot.memory, nullptr) << "its size is not known";
  Plan(1000, &slot);
  ASSERT_TRUE(memory.Fit(&slot).ok());
  EXPECT_EQ(program.stream, stream);
  Plan(4000, &slot);
  program.most_bytes = 4500;  // not the quarter more
  ASSERT_TRUE(memory.Fit(&slot).ok());
  EXPECT_EQ(slot.capacity, 4000u);
  EXPECT_EQ(program.allocated, 2u);
  EXPECT_EQ(program.freed, 1u);
  EXPECT_EQ(memory.largest_slot(), 4000u);
  Plan(5000, &slot);
  const Status refused = memory.Fit(&slot);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("the allocator of slots: the pool"), std::string::npos)
      << refused.message();
  EXPECT_TRUE(memory.Free(&slot).ok());
  EXPECT_EQ(program.freed, 2u);
}

TEST_F(SlotMemoryTest, WhatTheProgramsAllocatorDoesWrongIsAFailure) {
  CountedMemory program{.devices = devices_};
  FeedOptions options = options_;
  options.slot_bytes = 7777;
  options.slot_allocator = program.Functions();
  DeviceSlot& slot = slots_[0];
  const Status thrown = SlotMemory(options, 0).Make(&slot);
  EXPECT_EQ(thrown.code(), StatusCode::kUserError);
  EXPECT_NE(thrown.message().find("no sevens"), std::string::npos) << thrown.message();

  options.slot_bytes = 1000;
  program.off_by = 16;
  EXPECT_EQ(SlotMemory(options, 0).Make(&slot).code(), StatusCode::kUserError);
  EXPECT_EQ(slot.memory, nullptr);
  EXPECT_EQ(program.freed, program.allocated);

  program.off_by = 0;
  SlotMemory memory(options, 0);
  ASSERT_TRUE(memory.Make(&slot).ok());
  program.no_free = Status(StatusCode::kUserError, "not mine");
  Plan(3000, &slot);
  EXPECT_EQ(memory.Fit(&slot).code(), StatusCode::kUserError);
  EXPECT_EQ(slot.memory, nullptr);
}

TEST_F(SlotMemoryTest, ASlotOfAKnownSizeIsMadeBeforeItsFirstBatch) {
  FeedOptions options = options_;
  options.slot_bytes = 2000;
  SlotMemory memory(options, 0);
  DeviceSlot& slot = slots_[0];
  ASSERT_TRUE(memory.Make(&slot).ok());
  EXPECT_EQ(slot.capacity, 2000u);
  Plan(1000, &slot);
  EXPECT_FALSE(memory.Grows(slot));
  EXPECT_TRUE(memory.Fit(&slot).ok());
  EXPECT_TRUE(memory.Free(&slot).ok());
}

TEST_F(SlotMemoryTest, StagingMemoryIsAsLargeAsThePlanNeeds) {
  SlotMemory memory(options_, 0);
  DeviceSlot& slot = slots_[0];
  for (const std::size_t bytes : {1000u, 500u, 100'000u}) {
    Plan(bytes, &slot);
    ASSERT_TRUE(memory.FitStaging(&slot).ok());
    EXPECT_GE(slot.staging.bytes, bytes);
  }
  memory.FreeStaging(&slot);
  EXPECT_FALSE(slot.staging);
}

class SlotCopiesTest : public LanePartsTest {
 protected:
  void SetUp() override {
    LanePartsTest::SetUp();
    ASSERT_TRUE(copies_.Open().ok());
  }
  void TearDown() override {
    EXPECT_TRUE(copies_.Drain(Until()).ok());
    for (DeviceSlot& slot : slots_) {
      (void)devices_->DestroyEvent(slot.released[0]);
      EXPECT_TRUE(copies_.Free(&slot).ok());
    }
    copies_.Close();
    LanePartsTest::TearDown();
  }
  SlotCopies::Enqueued Copy(std::size_t first, std::size_t slots) {
    copies_.BeginGroup();
    for (std::size_t s = first; s < first + slots; ++s) {
      Prepare(s, ItemOf(s));
    }
    return copies_.Enqueue();
  }
  void Prepare(std::size_t slot, FeedItem item) {
    EXPECT_TRUE(copies_.Take(&slots_[slot], std::move(item)).ok());
    EXPECT_TRUE(copies_.Prepare(&slots_[slot]).ok());
  }
  bool MayPrepare(const DeviceSlot& slot) {
    bool may = false;
    EXPECT_TRUE(copies_.MayPrepare(slot, &may).ok());
    return may;
  }
  /// The next copy that is seen done.
  DeviceSlot* Seen() {
    while (copies_.any()) {
      if (DeviceSlot* const slot = copies_.LookAtOldest().slot; slot != nullptr) return slot;
      devices_->Idle(copies_.NextLook(devices_->NowNanos()));
    }
    return nullptr;
  }

  SlotCopies copies_{options_, 0, slots_, std::make_shared<HostPins>(devices_, CpuList{}),
                     &no_timeline_};
};

TEST_F(SlotCopiesTest, AGroupIsCopiedByOneCallAndSeenInItsOrder) {
  const SlotCopies::Enqueued enqueued = Copy(0, 2);
  ASSERT_TRUE(enqueued.status.ok());
  ASSERT_EQ(enqueued.filled.size(), 2u);
  EXPECT_EQ(devices_->CallsOf(DeviceCall::kCopyBatchToDevice), 1u);
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_EQ(Seen(), &slots_[s]);
    EXPECT_FALSE(slots_[s].item.batch.empty()) << "it keeps the batch until it is told to let go";
    copies_.LetGo(&slots_[s]);
    EXPECT_TRUE(slots_[s].item.batch.empty());
    EXPECT_EQ(slots_[s].item.number, s);
    EXPECT_EQ(slots_[s].generation.load(), 1u);
    EXPECT_EQ(slots_[s].tensors[0].bytes, 8u);
  }
  copies_.NoteSeen(2);
  EXPECT_FALSE(copies_.any());
}

TEST_F(SlotCopiesTest, ABatchThatIsCopiedAgainComesBeforeTheOthers) {
  ASSERT_TRUE(Copy(0, 1).status.ok());
  ASSERT_TRUE(Copy(1, 1).status.ok());
  ASSERT_EQ(Seen(), &slots_[0]);
  slots_[0].item.batch = ItemOf(9, 16).batch;
  ASSERT_TRUE(copies_.CopyAgain(&slots_[0]).ok());
  EXPECT_EQ(Seen(), &slots_[0]);
  EXPECT_EQ(slots_[0].tensors[0].bytes, 16u);
  copies_.LetGo(&slots_[0]);
  EXPECT_EQ(Seen(), &slots_[1]);
  copies_.LetGo(&slots_[1]);
}

TEST_F(SlotCopiesTest, AGroupIsFullAtItsBytes) {
  copies_.BeginGroup();
  Prepare(0, ItemOf(0));
  EXPECT_FALSE(copies_.GroupIsFull());
  Prepare(1, ItemOf(1, SlotCopies::kGroupBytes));
  EXPECT_TRUE(copies_.GroupIsFull());
  ASSERT_TRUE(copies_.Enqueue().status.ok());
  EXPECT_FALSE(copies_.MayWaitForMore(1)) << "one more makes a call of that size";
  EXPECT_TRUE(copies_.MayWaitForMore(0));
}

TEST_F(SlotCopiesTest, ASlotThatHasToGrowWaitsUntilWhatUsedItWasSeenDone) {
  constexpr std::int64_t kStepNs = 1'000'000;
  DeviceStream consumer;
  ASSERT_TRUE(devices_->CreateStream(0, StreamPriority::kNormal, &consumer).ok());
  DeviceSlot& slot = slots_[0];
  ASSERT_TRUE(Copy(0, 1).status.ok());
  ASSERT_EQ(Seen(), &slot);
  copies_.LetGo(&slot);
  ASSERT_TRUE(devices_->Busy(consumer, kStepNs).ok());
  ASSERT_TRUE(devices_->Record(slot.released[0], consumer).ok());
  slot.streams_used = 1;
  ASSERT_TRUE(copies_.Take(&slot, ItemOf(1)).ok());
  EXPECT_TRUE(MayPrepare(slot)) << "it fits, so the device orders it";
  ASSERT_TRUE(copies_.Take(&slot, ItemOf(1, 1000)).ok());
  EXPECT_FALSE(MayPrepare(slot));
  const std::int64_t until_ns = devices_->NowNanos() + kStepNs;
  while (devices_->NowNanos() < until_ns) devices_->Idle(until_ns);
  EXPECT_TRUE(MayPrepare(slot));
  copies_.BeginGroup();
  ASSERT_TRUE(copies_.Prepare(&slot).ok());
  ASSERT_TRUE(copies_.Enqueue().status.ok());
  EXPECT_GE(slot.capacity, 1000u);
  EXPECT_TRUE(devices_->DestroyStream(consumer).ok());
}

// Fields on the host are read by what a lease's streams do.
TEST_F(SlotCopiesTest, ABatchThatIsKeptGoesBackAfterWhatUsedItsSlotWasSeenDone) {
  constexpr std::int64_t kStepNs = 1'000'000;
  DeviceStream consumer;
  ASSERT_TRUE(devices_->CreateStream(0, StreamPriority::kNormal, &consumer).ok());
  DeviceSlot& slot = slots_[0];
  ASSERT_TRUE(Copy(0, 1).status.ok());
  ASSERT_EQ(Seen(), &slot);
  copies_.LetGo(&slot);
  slot.kept = ItemOf(0).batch;
  const std::weak_ptr<const void> kept = slot.kept.front().owner;
  ASSERT_TRUE(devices_->Busy(consumer, kStepNs).ok());
  ASSERT_TRUE(devices_->Record(slot.released[0], consumer).ok());
  slot.streams_used = 1;
  ASSERT_TRUE(copies_.Take(&slot, ItemOf(1)).ok());
  EXPECT_FALSE(MayPrepare(slot)) << "though it fits";
  const std::int64_t until_ns = devices_->NowNanos() + kStepNs;
  while (devices_->NowNanos() < until_ns) devices_->Idle(until_ns);
  EXPECT_TRUE(MayPrepare(slot));
  EXPECT_FALSE(kept.expired());
  copies_.BeginGroup();
  ASSERT_TRUE(copies_.Prepare(&slot).ok());
  EXPECT_TRUE(kept.expired());
  ASSERT_TRUE(copies_.Enqueue().status.ok());
  EXPECT_TRUE(devices_->DestroyStream(consumer).ok());
}

/// Says once that a graph is captured from the stream.
class CapturesOnce final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status RecordUnlessCaptured(DeviceEvent event, DeviceStream stream, bool* captured) override {
    *captured = std::exchange(captures, false);
    return *captured ? Status() : ForwardingBackend::RecordUnlessCaptured(event, stream, captured);
  }
  bool captures = false;
};

class SlotLeasesTest : public LanePartsTest {
 protected:
  void SetUp() override {
    LanePartsTest::SetUp();
    ASSERT_TRUE(devices_->CreateStream(0, StreamPriority::kNormal, &stream_).ok());
    for (DeviceSlot& slot : slots_) {
      ASSERT_TRUE(devices_->CreateEvent(0, EventKind::kPlain, &slot.ready).ok());
      ASSERT_TRUE(devices_->Record(slot.ready, stream_).ok());
    }
  }
  void TearDown() override {
    for (DeviceSlot& slot : slots_) {
      EXPECT_TRUE(leases_.SeeReleased(&slot, Until()).ok());
      EXPECT_TRUE(devices_->DestroyEvent(slot.ready).ok());
    }
    EXPECT_TRUE(devices_->DestroyStream(stream_).ok());
    LanePartsTest::TearDown();
  }
  DeviceSlot& Take(std::size_t offered) {
    leases_.Offer(slots_[offered]);
    std::size_t number = kSlots;
    EXPECT_EQ(leases_.TryTake(&number), QueueResult::kOk);
    EXPECT_EQ(number, offered);
    return slots_[offered];
  }

  const std::shared_ptr<CapturesOnce> backend_ = std::make_shared<CapturesOnce>(devices_);
  LaneSleep sleep_;
  SlotLeases leases_{backend_, 0, slots_, &no_timeline_, &sleep_};
  DeviceStream stream_;
};

TEST_F(SlotLeasesTest, ASlotIsHeldFromItsTakeToItsRelease) {
  std::size_t number = 0;
  EXPECT_EQ(leases_.TryTake(&number), QueueResult::kEmpty);
  DeviceSlot& slot = Take(1);
  EXPECT_EQ(leases_.HeldBy(std::this_thread::get_id()), 1u);
  EXPECT_TRUE(leases_.IsHeld(slot));
  ASSERT_TRUE(leases_.UseOn(&slot, stream_).ok());
  ASSERT_TRUE(leases_.UseOn(&slot, stream_).ok());
  EXPECT_EQ(slot.streams_used, 1u);
  EXPECT_TRUE(leases_.TakeBack().empty());
  leases_.Release(&slot);
  EXPECT_EQ(leases_.held(), 0u);
  EXPECT_TRUE(leases_.HasReturned());
  const auto back = leases_.TakeBack();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0], &slot);
  EXPECT_EQ(slot.releases[0], DeviceSlot::ReleaseMark::kRecorded);
  EXPECT_EQ(leases_.taken(), 1u);
}

TEST_F(SlotLeasesTest, AStreamOfAnotherContextIsRefusedAndTheNextOneTaken) {
  DeviceStream other;
  ASSERT_TRUE(devices_->CreateStream(0, StreamPriority::kNormal, &other).ok());
  devices_->SetOtherContext(other);
  DeviceSlot& slot = Take(0);
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_EQ(leases_.UseOn(&slot, other).code(), StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE(leases_.UseOn(&slot, stream_).ok());
  leases_.Release(&slot);
  const auto back = leases_.TakeBack();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_FALSE(back[0]->lost);
  EXPECT_TRUE(devices_->DestroyStream(other).ok());
}

TEST_F(SlotLeasesTest, ASlotThatCameBackUnderACaptureWaitsForItsEnd) {
  DeviceSlot& slot = Take(0);
  ASSERT_TRUE(leases_.UseOn(&slot, stream_).ok());
  backend_->captures = true;
  leases_.Release(&slot);
  backend_->captures = true;
  EXPECT_TRUE(leases_.TakeBack().empty());
  EXPECT_EQ(leases_.captured_slots(), 1u);
  EXPECT_NE(leases_.NextLook(devices_->NowNanos()), CopyPace::kNever);
  EXPECT_EQ(leases_.TakeBack().size(), 1u);
  EXPECT_EQ(leases_.captured_slots(), 0u);
  EXPECT_EQ(leases_.NextLook(devices_->NowNanos()), CopyPace::kNever);
}

TEST_F(SlotLeasesTest, TheEndComesAfterWhatWasOfferedAndAKillAtOnce) {
  leases_.Offer(slots_[0]);
  leases_.Close({});
  std::size_t number = 0;
  EXPECT_EQ(leases_.TryTake(&number), QueueResult::kOk);
  EXPECT_EQ(leases_.TryTake(&number), QueueResult::kClosed);
  leases_.Release(&slots_[0]);
  leases_.Reset();
  leases_.Offer(slots_[1]);
  leases_.Kill(Status(StatusCode::kCancelled, "over"));
  EXPECT_EQ(leases_.TryTake(&number), QueueResult::kFailed);
  EXPECT_EQ(leases_.failure().message(), "over");
  leases_.AwaitTakers();
  EXPECT_EQ(leases_.TakeBack().size(), 1u);
}

/// A batch with one payload, whose sum is right or wrong.
class OneSum final : public UnsettledBatch {
 public:
  OneSum(bool has_sum, SettledBatch settled) : settled_(std::move(settled)) {
    if (has_sum) sums_.push_back({payload_.data(), payload_.size(), Crc32c(payload_), 0});
  }
  std::span<const PendingSum> sums() const override { return sums_; }
  bool IsShownEmpty() const override { return false; }
  SettledBatch Settle(std::span<const std::uint32_t> bad) override {
    bad_ = bad.size();
    return settled_;
  }
  void Damage() { payload_[3] ^= std::byte{1}; }
  std::size_t bad() const { return bad_; }

 private:
  std::vector<std::byte> payload_{100};
  std::vector<PendingSum> sums_;
  SettledBatch settled_;
  std::size_t bad_ = 0;
};

/// The slots of two lanes, which batches go to in turn. The CPU takes the sums.
class BatchSettlingTest : public LanePartsTest {
 protected:
  /// The next batch comes, and its copy is enqueued in that slot of the next lane.
  OneSum* Give(std::size_t slot, bool has_sum, SettledBatch settled = {}) {
    auto batch = std::make_shared<OneSum>(has_sum, std::move(settled));
    batches_.push_back(batch);
    FeedItem item = ItemOf(next_);
    item.settling = order_.Add(batch, next_, 1);
    DeviceSlot& given = SlotOf(next_, slot);
    given.item = std::move(item);
    must_wait_ = settling_[next_ % 2].MustWait(&given);
    ++next_;
    return batch.get();
  }
  DeviceSlot& SlotOf(std::size_t lane, std::size_t slot) {
    return lane % 2 == 0 ? slots_[slot] : others_[slot];
  }
  SettledBatch::Kind HandOn(std::size_t lane) {
    DeviceSlot* const slot = settling_[lane].Due();
    EXPECT_NE(slot, nullptr);
    const SettledBatch::Kind kind = settling_[lane].Apply(slot);
    settling_[lane].PopDue();
    return kind;
  }
  static SettledBatch Nothing() {
    SettledBatch nothing;
    nothing.kind = SettledBatch::Kind::kNothing;
    return nothing;
  }

  SettlingOrder order_;
  LaneSleep sleeps_[2];
  std::vector<DeviceSlot> others_{kSlots};
  BatchSettling settling_[2] = {{devices_, &order_, &sleeps_[0]}, {devices_, &order_, &sleeps_[1]}};
  std::vector<std::shared_ptr<OneSum>> batches_;
  std::uint64_t next_ = 0;
  bool must_wait_ = false;
};

TEST_F(BatchSettlingTest, ABatchWithoutSumsWaitsOnlyBehindOneThatWaits) {
  Give(0, false);
  EXPECT_FALSE(must_wait_);
  EXPECT_EQ(slots_[0].item.settling, nullptr);
  EXPECT_TRUE(order_.is_empty());
  Give(0, true);
  EXPECT_TRUE(must_wait_);
  Give(1, false);
  EXPECT_TRUE(must_wait_) << "behind the one of the other lane";
  settling_[0].NoteSeen(&slots_[1]);
  EXPECT_EQ(settling_[0].Due(), nullptr);
  EXPECT_EQ(order_.LanesOfFirst(), std::vector<std::size_t>{1});
  settling_[1].NoteSeen(&others_[0]);
  EXPECT_EQ(HandOn(1), SettledBatch::Kind::kWhole);
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kWhole);
  EXPECT_FALSE(settling_[0].any_waits() || settling_[1].any_waits());
  EXPECT_TRUE(order_.is_empty());
}

TEST_F(BatchSettlingTest, BatchesAreSettledInTheirOrderWhicheverDeviceIsFirst) {
  Give(0, true);
  Give(0, true);
  settling_[1].NoteSeen(&others_[0]);
  EXPECT_EQ(settling_[1].Due(), nullptr);
  EXPECT_FALSE(order_.is_empty());
  settling_[0].NoteSeen(&slots_[0]);
  EXPECT_TRUE(order_.is_empty());
  EXPECT_EQ(HandOn(1), SettledBatch::Kind::kWhole);
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kWhole);
}

TEST_F(BatchSettlingTest, ASumThatTheDeviceDidNotTakeIsTakenByTheCpu) {
  OneSum* const whole = Give(0, true);
  settling_[0].NoteSeen(&slots_[0]);
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kWhole);
  EXPECT_EQ(whole->bad(), 0u);
  SettledBatch rest;
  rest.kind = SettledBatch::Kind::kOther;
  rest.tensors = ItemOf(9, 3).batch;
  rest.failure = Status(StatusCode::kDamaged, "row 1");
  OneSum* const damaged = Give(0, true, rest);
  damaged->Damage();
  Give(1, true);
  settling_[0].NoteSeen(&slots_[1]);
  settling_[1].NoteSeen(&others_[0]);
  EXPECT_EQ(damaged->bad(), 1u);
  EXPECT_EQ(order_.failure().message(), "row 1");
  EXPECT_EQ(HandOn(1), SettledBatch::Kind::kOther);
  EXPECT_EQ(others_[0].item.batch[0].bytes, 3u);
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kNothing) << "what follows a failure";
}

TEST_F(BatchSettlingTest, WhatCameToNothingHasNoNumber) {
  order_.Add(std::make_shared<OneSum>(true, Nothing()), 0, 1);
  Give(0, true);
  EXPECT_EQ(order_.came_to_nothing(), 0u) << "its item was not seen";
  order_.Reset();
  Give(1, true, Nothing());
  Give(1, true);
  settling_[1].NoteSeen(&others_[1]);
  settling_[0].NoteSeen(&slots_[1]);
  EXPECT_EQ(order_.came_to_nothing(), 1u);
  order_.Reset();
  EXPECT_EQ(order_.came_to_nothing(), 0u);
}

TEST_F(BatchSettlingTest, WhatADeviceThatFailedDidNotSeeComesToNothingAndAllThatFollows) {
  Give(0, true);
  Give(0, true);
  Give(1, true);
  settling_[0].NoteSeen(&slots_[1]);
  settling_[1].Lose(Status(StatusCode::kDeviceLost, "gone"));
  EXPECT_FALSE(order_.has_failed()) << "the first batch is of the other device";
  settling_[0].NoteSeen(&slots_[0]);
  EXPECT_EQ(order_.failure().message(), "gone");
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kWhole);
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kNothing);
  Give(2, true);
  EXPECT_TRUE(order_.is_empty());
}

TEST_F(BatchSettlingTest, AnItemThatCouldNotBeEnqueuedLosesNoneBeforeIt) {
  Give(0, true);
  Give(0, true);
  Give(1, true);
  order_.Add(std::make_shared<OneSum>(true, SettledBatch()), next_, 1);
  settling_[1].LoseRest(Status(StatusCode::kResourceExhausted, "too large"));
  EXPECT_FALSE(order_.has_failed()) << "those before it are on their way";
  settling_[0].NoteSeen(&slots_[0]);
  settling_[1].NoteSeen(&others_[0]);
  settling_[0].NoteSeen(&slots_[1]);
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kWhole);
  EXPECT_EQ(HandOn(1), SettledBatch::Kind::kWhole);
  EXPECT_EQ(HandOn(0), SettledBatch::Kind::kWhole);
  EXPECT_EQ(order_.failure().message(), "too large");
  EXPECT_TRUE(order_.is_empty());
}

TEST(TransferTallyTest, TheReasonSaysHowMostBytesCame) {
  TransferTally tally;
  DeviceFeedStats stats;
  stats.delivered_bytes = 1000;
  const auto reason = [&](TransferPlan asked) {
    tally.AddTo(asked, "because", &stats);
    return stats.transfer_reason;
  };
  EXPECT_EQ(reason(TransferPlan::kBatch), "asked for");
  EXPECT_NE(reason(TransferPlan::kAuto).find("there was no memory to keep them; because"),
            std::string::npos);
  tally.Add(TransferTally::kMembers, 300);
  tally.Add(TransferTally::kSlabs, 400);
  EXPECT_EQ(reason(TransferPlan::kAuto),
            "70 % of the bytes came from where they were read; because");
  EXPECT_EQ(stats.transfer, TransferPlan::kSlabs);
  tally.Add(TransferTally::kDirect, 800);
  EXPECT_EQ(reason(TransferPlan::kAuto),
            "53 % of the bytes were read into the device's memory; because");
  EXPECT_EQ(stats.transfer, TransferPlan::kDirect);
}

TEST_F(LanePartsTest, ATimelineHasTheTimesThatACopyTookOnTheDevice) {
  const auto timeline = std::make_shared<Timeline>();
  LaneTimeline lane(devices_, timeline, 2);
  DeviceStream stream;
  ASSERT_TRUE(devices_->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  ASSERT_TRUE(lane.Open(0, stream).ok());
  DeviceSlot& slot = slots_[0];
  slot.item.number = 5;
  ASSERT_TRUE(devices_->CreateEvent(0, EventKind::kTimed, &slot.copy_begins).ok());
  ASSERT_TRUE(devices_->CreateEvent(0, EventKind::kTimed, &slot.copied).ok());
  ASSERT_TRUE(devices_->Record(slot.copy_begins, stream).ok());
  ASSERT_TRUE(devices_->Busy(stream, 1'000'000).ok());
  ASSERT_TRUE(devices_->Record(slot.copied, stream).ok());
  ASSERT_TRUE(devices_->SyncStream(stream).ok());
  lane.NoteCopy(slot);
  lane.Note("lease", 6, 0);
  no_timeline_.Note("lease", 7, 0);
  const auto spans = timeline->spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].number, 5u);
  EXPECT_EQ(spans[0].track, 2);
  EXPECT_NEAR(static_cast<double>(spans[0].end_ns - spans[0].begin_ns), 1e6, 1e5);
  for (const DeviceEvent event : {slot.copy_begins, slot.copied}) {
    EXPECT_TRUE(devices_->DestroyEvent(event).ok());
  }
  lane.Close();
  EXPECT_TRUE(devices_->DestroyStream(stream).ok());
}

}  // namespace
}  // namespace ringfeed
