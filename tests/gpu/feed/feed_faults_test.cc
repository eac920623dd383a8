#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/gpu/feed/feed_scenario.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// A loop over everything that a feed does with a device: ragged batches, some of them staged, a
/// transform, a stage, a mask, two devices, a slot that grows.
FeedScenario Everything(bool closed_first) {
  FeedScenario scenario;
  scenario.closed_first = closed_first;
  scenario.devices.devices.resize(2);
  scenario.devices.strict = false;  // memory that cannot be registered is copied from all the same
  scenario.supply.batches = 9;
  scenario.supply.ragged = true;
  scenario.supply.last_rows = 300;
  scenario.feed.last_step = LastStep::kPad;
  scenario.feed.transforms = {WidenField{1, DType::kInt32}};
  scenario.feed.stage = {.outputs = {{}}, .on_host = [](const StageCall& call) {
                           std::fill_n(call.output(0), call.outputs[0].bytes, std::byte{1});
                           return Status();
                         }};
  return scenario;
}

constexpr std::int64_t kDeadlineNs = 1'000'000'000;

class FeedFaultsTest : public testing::TestWithParam<FaultEffect> {};

bool LeavesWork(DeviceCall call) {
  static constexpr std::array kWork = {DeviceCall::kRecord,       DeviceCall::kStreamWait,
                                       DeviceCall::kCopyToDevice, DeviceCall::kCopyToHost,
                                       DeviceCall::kFill,         DeviceCall::kLaunch,
                                       DeviceCall::kBusy,         DeviceCall::kCopyBatchToDevice};
  return std::find(kWork.begin(), kWork.end(), call) != kWork.end();
}

/// What is not given back because the call that does that failed, without effect.
std::size_t Expected(DeviceCall call, FaultEffect effect) {
  // Registrations are no device's own, so none is lost with one.
  if (call == DeviceCall::kUnregisterHost) return 1;
  static constexpr std::array kGiveBack = {DeviceCall::kFreeDevice, DeviceCall::kDestroyStream,
                                           DeviceCall::kDestroyEvent};
  const bool gives_back = std::find(kGiveBack.begin(), kGiveBack.end(), call) != kGiveBack.end();
  return gives_back && effect == FaultEffect::kFails ? 1 : 0;
}

void ExpectInOrder(const FeedOutcome& outcome, std::size_t leaks, const std::string& where) {
  EXPECT_LT(outcome.virtual_ns, kDeadlineNs) << where;
  EXPECT_EQ(outcome.leaks.allocations + outcome.leaks.registrations + outcome.leaks.streams +
                outcome.leaks.events,
            leaks)
      << where << ": " << outcome.leaks.allocations << " allocations, "
      << outcome.leaks.registrations << " registrations, " << outcome.leaks.streams << " streams, "
      << outcome.leaks.events << " events";
  EXPECT_TRUE(outcome.offences.empty()) << where << ": " << outcome.offences.front();
  EXPECT_EQ(outcome.batches_out, 0U) << where;
  EXPECT_TRUE(outcome.end != ReadResult::kFailed || !outcome.status.ok()) << where;
}

void ExpectInOrderWhateverFails(FaultEffect effect, bool closed_first) {
  const FeedOutcome unharmed = RunScenario(Everything(closed_first));
  ASSERT_EQ(unharmed.end, ReadResult::kEnd) << unharmed.status.ToString();
  ExpectInOrder(unharmed, 0, "unharmed");
  for (std::size_t c = 0; c < kDeviceCalls; ++c) {
    const auto call = static_cast<DeviceCall>(c);
    if (effect == FaultEffect::kLater && !LeavesWork(call)) continue;
    for (std::uint64_t nth = 1; nth <= unharmed.calls[c]; nth += kSanitized ? 3 : 1) {
      FeedScenario scenario = Everything(closed_first);
      scenario.devices.faults = {{call, nth, effect}};
      ExpectInOrder(RunScenario(scenario), Expected(call, effect),
                    std::string(DeviceCallName(call)) + " " + std::to_string(nth));
    }
  }
}

TEST_P(FeedFaultsTest, OfEveryCallEndInDataOrAStatusInTimeAndNothingLeaks) {
  ExpectInOrderWhateverFails(GetParam(), false);
}

// The consumers' last steps run when the feed is closed: it frees nothing of what they use.
TEST_P(FeedFaultsTest, OfEveryCallFreeNothingUnderTheConsumers) {
  ExpectInOrderWhateverFails(GetParam(), true);
}

// Where it cannot be seen what still runs, memory is given up.
TEST(FeedFaultsTwiceTest, NothingIsFreedThatMayStillBeUsed) {
  const FeedOutcome unharmed = RunScenario(Everything(true));
  const auto calls_of = [&](DeviceCall call) {
    return unharmed.calls[static_cast<std::size_t>(call)];
  };
  for (const DeviceCall call : {DeviceCall::kRecord, DeviceCall::kStreamWait, DeviceCall::kLaunch,
                                DeviceCall::kCopyBatchToDevice, DeviceCall::kFill}) {
    for (std::uint64_t nth = 1; nth <= calls_of(call); nth += kSanitized ? 5 : 1) {
      FeedScenario scenario = Everything(true);
      scenario.feed.close_timeout_ms = 100;
      scenario.devices.faults = {{call, nth, FaultEffect::kFails}};
      for (std::uint64_t sync = 1; sync <= 4; ++sync) {
        scenario.devices.faults.push_back({DeviceCall::kSyncStream, sync, FaultEffect::kFails});
      }
      for (std::uint64_t record = nth + 1; call == DeviceCall::kRecord && record < nth + 9;) {
        scenario.devices.faults.push_back({call, record++, FaultEffect::kFails});
      }
      const FeedOutcome outcome = RunScenario(scenario);
      const std::string where = std::string(DeviceCallName(call)) + " " + std::to_string(nth);
      EXPECT_TRUE(outcome.offences.empty()) << where << ": " << outcome.offences.front();
      EXPECT_TRUE(!outcome.closed.ok() || outcome.batches_out == 0) << where;
    }
  }
}

// As after a reset of the device by the program, or while CUDA's runtime unloads.
TEST(FeedFaultsThatStayTest, OfEveryCallEndInTimeAndFreeNothingThatMayStillBeUsed) {
  const FeedOutcome unharmed = RunScenario(Everything(false));
  for (std::size_t c = 0; c < kDeviceCalls; ++c) {
    const auto call = static_cast<DeviceCall>(c);
    for (std::uint64_t nth = 1; nth <= unharmed.calls[c]; nth += kSanitized ? 15 : 5) {
      FeedScenario scenario = Everything(false);
      scenario.devices.faults = {{call, nth, FaultEffect::kStays}};
      const FeedOutcome outcome = RunScenario(scenario);
      const std::string where = std::string(DeviceCallName(call)) + " " + std::to_string(nth);
      EXPECT_LT(outcome.virtual_ns, kDeadlineNs) << where << ": " << outcome.closed.ToString();
      EXPECT_TRUE(outcome.offences.empty()) << where << ": " << outcome.offences.front();
      EXPECT_TRUE(!outcome.closed.ok() || outcome.batches_out == 0) << where;
      EXPECT_TRUE(outcome.closed.ok() ||
                  outcome.closed.message().find("planned fault") != std::string::npos)
          << where << ": " << outcome.closed.ToString();
    }
  }
}

enum class ProgramsFault : std::uint8_t { kRefuses, kThrows, kKeeps };

/// A program's allocator over the devices' own, of which one call fails.
struct FaultyMemory {
  ProgramsFault fault{};
  std::size_t nth = 0;  ///< from 1; 0: none
  std::size_t calls = 0;
  std::size_t allocated = 0;
  std::size_t freed = 0;

  Status Call() {
    if (++calls != nth) return {};
    if (fault == ProgramsFault::kThrows) throw std::runtime_error("the pool");
    return Status(StatusCode::kUserError, "the pool");
  }
  SlotAllocator Over(std::shared_ptr<DeviceBackend> devices) {
    return {[this, devices](int device, std::size_t bytes, DeviceStream, std::byte** data) {
              Status status = fault == ProgramsFault::kKeeps ? Status() : Call();
              if (status.ok()) status = devices->AllocDevice(device, bytes, data);
              allocated += status.ok() ? 1 : 0;
              return status;
            },
            [this, devices](int device, std::byte* data, std::size_t, DeviceStream) {
              ++freed;
              const Status status = devices->FreeDevice(device, data);
              if (!status.ok() || fault != ProgramsFault::kKeeps) return status;
              return Call();
            }};
  }
};

// Growing slots, a closed feed whose last steps still run, and one that ends.
TEST(FeedFaultsOfTheProgramTest, OfItsAllocatorComeInOrderAndAllItsMemoryGoesBack) {
  for (const ProgramsFault fault :
       {ProgramsFault::kRefuses, ProgramsFault::kThrows, ProgramsFault::kKeeps}) {
    for (const bool closed_first : {false, true}) {
      std::size_t calls = 1;
      for (std::size_t nth = 0; nth <= calls; ++nth) {
        FaultyMemory program{.fault = fault, .nth = nth};
        FeedScenario scenario = Everything(closed_first);
        scenario.feed.slot_bytes = nth % 2 == 0 ? 0 : 500;
        scenario.fill_in = [&](FeedOptions* options) {
          options->slot_allocator = program.Over(options->backend);
        };
        const FeedOutcome outcome = RunScenario(scenario);
        const std::string where = std::to_string(static_cast<int>(fault)) + ", " +
                                  std::to_string(nth) + " of " + std::to_string(calls);
        ExpectInOrder(outcome, 0, where);
        EXPECT_EQ(program.freed, program.allocated) << where;
        EXPECT_GE(program.allocated + (nth == 1 ? 1 : 0), 1U) << where;
        const bool told = outcome.status.message().find("the pool") != std::string::npos ||
                          outcome.closed.message().find("the pool") != std::string::npos;
        EXPECT_EQ(told, nth > 0 && program.calls >= nth)
            << where << ": " << outcome.status.ToString() << "; " << outcome.closed.ToString();
        calls = nth == 0 ? program.calls : calls;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Effects, FeedFaultsTest,
                         testing::Values(FaultEffect::kFails, FaultEffect::kDeviceLost,
                                         FaultEffect::kLater),
                         [](const auto& test) {
                           switch (test.param) {
                             case FaultEffect::kFails:
                               return "CallFails";
                             case FaultEffect::kDeviceLost:
                               return "DeviceIsLost";
                             default:
                               return "WorkFailsLater";
                           }
                         });

}  // namespace
}  // namespace ringfeed
