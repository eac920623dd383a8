#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/backends/emulated/hazard_checker.h"
#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

constexpr std::size_t kBytes = 4'096;

/// A step of a feed with any of its orderings left out: a slab is filled, copied, used by a compute
/// stream, and both the slab and the slot are used again.
struct Step {
  bool copy_waits_for_release = true;
  bool compute_waits_for_copy = true;
  bool host_looks_at_copy = true;
  bool reader_takes_over = true;
};

Rules RunSteps(const EmulatedOptions& options, const Step& step) {
  DeviceRig rig(options);
  const DeviceStream copies = rig.Stream();
  const DeviceStream compute = rig.Stream();
  const DeviceEvent copied = rig.Event();
  const DeviceEvent released = rig.Event();
  std::byte* slab = rig.Host(kBytes);
  std::byte* slot = rig.Device(kBytes);
  const std::array<MemoryAccess, 1> uses = {MemoryAccess{slot, kBytes, false}};
  for (int i = 0; i < 3; ++i) {
    rig->SetActor(1);
    if (step.reader_takes_over) rig->NoteTakeOver(slab);
    rig->NoteHostWrite(slab, kBytes, "fill");
    rig->NoteHandOver(slab);
    rig->SetActor(0);
    rig->NoteTakeOver(slab);
    if (step.copy_waits_for_release) rig.Expect(rig->StreamWait(copies, released));
    rig.Expect(rig->CopyToDevice(copies, slot, slab, kBytes));
    rig.Expect(rig->Record(copied, copies));
    if (step.compute_waits_for_copy) rig.Expect(rig->StreamWait(compute, copied));
    rig.Expect(rig->LaunchHost(
        compute, [] {}, uses));
    rig.Expect(rig->Record(released, compute));
    if (step.host_looks_at_copy) {
      rig.Await(copied);
    } else {
      rig->Drain();  // what ran does not matter
    }
    rig->NoteHandOver(slab);
  }
  return rig.Rules();
}

class Hazards : public testing::TestWithParam<std::tuple<SchedulePolicy, std::uint64_t>> {
 protected:
  static EmulatedOptions Options() {
    return Simulated(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};

TEST_P(Hazards, ACompleteFeedHasNone) { EXPECT_EQ(RunSteps(Options(), {}), Rules{}); }

TEST_P(Hazards, ASlotThatIsFilledAgainTooEarlyIsFound) {
  const Rules rules = RunSteps(Options(), {.copy_waits_for_release = false});
  EXPECT_EQ(rules, (Rules{"unordered", "unordered"}));
}

TEST_P(Hazards, AStepThatDoesNotWaitForItsCopyIsFound) {
  const Rules rules = RunSteps(Options(), {.compute_waits_for_copy = false});
  EXPECT_FALSE(rules.empty());
  for (const std::string& rule : rules) EXPECT_EQ(rule, "unordered");
}

TEST_P(Hazards, ASlabThatIsFilledAgainUnseenIsFound) {
  const Rules rules = RunSteps(Options(), {.host_looks_at_copy = false});
  EXPECT_EQ(rules, (Rules{"unordered", "unordered"}));
}

TEST_P(Hazards, AReaderWhoWasNotHandedTheSlabIsFound) {
  const Rules rules = RunSteps(Options(), {.reader_takes_over = false});
  EXPECT_EQ(rules, (Rules{"unordered", "unordered"}));
}

std::string NameOf(const testing::TestParamInfo<Hazards::ParamType>& info) {
  static constexpr std::array<const char*, 5> kNames = {"Timed", "Eager", "Lazy", "Random",
                                                        "Priorities"};
  return kNames[static_cast<std::size_t>(std::get<0>(info.param))] +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Policies, Hazards,
    testing::Combine(testing::Values(SchedulePolicy::kTimed, SchedulePolicy::kEager,
                                     SchedulePolicy::kLazy, SchedulePolicy::kRandom,
                                     SchedulePolicy::kPriorities),
                     testing::Values(0U, 1U, 2U)),
    NameOf);

class HazardReport : public testing::Test {
 protected:
  DeviceRig rig_{Simulated()};
  DeviceStream first_ = rig_.Stream();
  DeviceStream second_ = rig_.Stream();
  std::byte* slab_ = rig_.Host(kBytes);
  std::byte* slot_ = rig_.Device(kBytes);
};

TEST_F(HazardReport, NamesBothOperations) {
  rig_.Expect(rig_->CopyToDevice(first_, slot_ + 1'024, slab_ + 512, 256));
  rig_.Expect(rig_->Fill(second_, slot_, std::byte{}, 2'048));
  const std::vector<Offence> offences = rig_->offences();
  ASSERT_EQ(offences.size(), 1U);
  EXPECT_EQ(offences[0].first,
            "fill on device 0, stream 1, 2048 bytes at allocation 0 of device 0 + 0");
  EXPECT_EQ(offences[0].second,
            "copy to device 0, stream 0, 256 bytes at allocation 0 of device 0 + 1024");
  EXPECT_EQ(offences[0].ToString(),
            "unordered: " + offences[0].first + "; and " + offences[0].second);
}

TEST_F(HazardReport, NamesWhatTheHostDid) {
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_ + 512, 256));
  rig_->SetActor(7);
  rig_->NoteHostWrite(slab_, 1'024, "parser");
  const std::vector<Offence> offences = rig_->offences();
  ASSERT_EQ(offences.size(), 1U);
  EXPECT_EQ(offences[0].first, "parser, actor 7, 1024 bytes at registration 0 + 0");
  EXPECT_EQ(offences[0].second, "copy to device 0, stream 0, 256 bytes at registration 0 + 512");
}

TEST_F(HazardReport, ReadsDoNotConflict) {
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->CopyToDevice(second_, slot_ + 2'048, slab_, 1'024));
  rig_->NoteHostRead(slab_, kBytes, "checksum");
  rig_.ExpectNoOffence();
}

TEST_F(HazardReport, EveryReaderCounts) {
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->CopyToDevice(second_, slot_ + 2'048, slab_ + 512, 1'024));
  rig_->NoteHostWrite(slab_, kBytes, "fill");
  EXPECT_EQ(rig_.Rules(), (Rules{"unordered", "unordered"}));
}

TEST_F(HazardReport, NeighboursDoNotConflict) {
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Fill(second_, slot_ + 1'024, std::byte{}, 1'024));
  rig_->NoteHostWrite(slab_ + 1'024, 1'024, "fill");
  rig_.ExpectNoOffence();
}

TEST_F(HazardReport, AQueryThatSaysFalseOrdersNothing) {
  const DeviceEvent event = rig_.Event();
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Record(event, first_));
  EXPECT_FALSE(rig_.Done(event));
  rig_->NoteHostWrite(slab_, 1, "fill");
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, AnEventOrdersWhatCameBeforeItAlone) {
  const DeviceEvent event = rig_.Event();
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Record(event, first_));
  rig_.Expect(rig_->CopyToDevice(first_, slot_ + 1'024, slab_ + 1'024, 1'024));
  rig_->Drain();
  EXPECT_TRUE(rig_.Done(event));
  rig_->NoteHostWrite(slab_, 1'024, "fill");
  rig_.ExpectNoOffence();
  rig_->NoteHostWrite(slab_ + 1'024, 1'024, "fill");
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, WhatOneActorSawAnotherDidNot) {
  const DeviceEvent event = rig_.Event();
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Record(event, first_));
  rig_.Await(event);
  rig_->SetActor(1);
  rig_->NoteHostWrite(slab_, 1'024, "fill");
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, WhatIsDoneAfterTheHandOverIsNotHandedOver) {
  int token = 0;
  rig_->NoteHandOver(&token);
  rig_->NoteHostWrite(slab_, 1'024, "late");
  rig_->SetActor(1);
  rig_->NoteTakeOver(&token);
  rig_->NoteHostRead(slab_, 1'024, "reader");
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, AHostWriteBehindTheEnqueueIsNotBeforeTheCopy) {
  rig_->NoteHostWrite(slab_, 1'024, "fill");
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.ExpectNoOffence();
  rig_->NoteHostWrite(slab_, 1'024, "fill");
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, AWaitTakesTheRecordOfTheCall) {
  const DeviceEvent event = rig_.Event();
  rig_.Expect(rig_->StreamWait(second_, event));
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Record(event, first_));
  rig_.Expect(rig_->Fill(second_, slot_, std::byte{}, 1'024));
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, SyncsAndElapsedOrder) {
  const DeviceEvent begin = rig_.Event(0, EventKind::kTimed);
  const DeviceEvent end = rig_.Event(0, EventKind::kTimed);
  rig_.Expect(rig_->Record(begin, first_));
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Record(end, first_));
  rig_->Drain();
  double milliseconds = 0;
  rig_.Expect(rig_->Elapsed(begin, end, &milliseconds));
  rig_->NoteHostWrite(slab_, 1'024, "behind Elapsed");
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->SyncStream(first_));
  rig_->NoteHostWrite(slab_, 1'024, "behind SyncStream");
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Record(end, first_));
  rig_.Expect(rig_->SyncEvent(end));
  rig_->NoteHostWrite(slab_, 1'024, "behind SyncEvent");
  rig_.ExpectNoOffence();
}

TEST_F(HazardReport, KernelsHaveAccesses) {
  auto* output = reinterpret_cast<std::uint64_t*>(slot_ + 2'048);
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_.Expect(rig_->Launch(second_, Checksum{slot_ + 512, 1'024, output}));
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, FreeingIsAWrite) {
  rig_.Expect(rig_->CopyToDevice(first_, slot_, slab_, 1'024));
  rig_->Drain();  // nothing is in flight, but nobody has seen it
  rig_.Expect(rig_->FreeDevice(0, slot_));
  rig_.Expect(rig_->UnregisterHost(slab_));
  EXPECT_EQ(rig_.Rules(), (Rules{"unordered", "unordered"}));
}

TEST_F(HazardReport, MemoryThatIsMadeAnewHasNoPast) {
  for (int i = 0; i < 100; ++i) {
    std::byte* memory = rig_.Device(kBytes);
    const DeviceStream stream = i % 2 == 0 ? first_ : second_;
    rig_.Expect(rig_->Fill(stream, memory, std::byte{}, kBytes));
    rig_.Expect(rig_->SyncStream(stream));
    rig_.Expect(rig_->FreeDevice(0, memory));
  }
  rig_.ExpectNoOffence();
}

TEST_F(HazardReport, PiecesOfABatchMustNotOverlap) {
  const std::vector<CopyPiece> pieces = {{slot_, slab_, 100}, {slot_ + 99, slab_ + 200, 100}};
  rig_.Expect(rig_->CopyBatchToDevice(first_, pieces));
  EXPECT_EQ(rig_.Rules(), Rules{"unordered"});
}

TEST_F(HazardReport, CanBeTurnedOff) {
  EmulatedOptions options = Simulated();
  options.check_hazards = false;
  DeviceRig rig(options);
  std::byte* slab = rig.Host(kBytes);
  rig.Expect(rig->CopyToDevice(rig.Stream(), rig.Device(kBytes), slab, kBytes));
  rig->NoteHostWrite(slab, kBytes, "fill");
  rig.ExpectNoOffence();
}

TEST_F(HazardReport, OffencesAreBounded) {
  for (int i = 0; i < 2'000; ++i) {
    rig_.Expect(rig_->Fill(first_, slot_, std::byte{}, 16));
    rig_.Expect(rig_->Fill(second_, slot_, std::byte{}, 16));
  }
  EXPECT_EQ(rig_->offences().size(), 1'000U);
}

TEST(HazardMemory, StaysBoundedOverALongRun) {
  EmulatedMemory memory({});
  OffenceLog offences;
  HazardChecker checker(&memory, &offences);
  std::vector<std::byte> slab(64 * 64);
  std::size_t most = 0;
  for (int step = 0; step < 5'000; ++step) {
    if (step < 3) checker.AddStream(step, 0);
    const Operation copy{.what = "copy to", .device = 0, .stream = step % 3};
    std::vector<MemoryAccess> accesses;
    for (std::size_t i = 0; i < 64; ++i) accesses.push_back({slab.data() + 64 * i, 64, false});
    checker.HostAccess("fill", slab.data(), slab.size(), true);
    checker.Enqueue(copy, accesses);
    checker.Record(0, copy.stream);
    checker.ObserveEvent(0);
    checker.HostAccess("read", slab.data() + 100, 1'000, false);
    most = std::max(most, checker.entries());
  }
  EXPECT_TRUE(offences.offences().empty());
  EXPECT_LE(most, 4U);
}

}  // namespace
}  // namespace ringfeed
