#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

/// Both executors, two devices.
class Events : public testing::TestWithParam<bool> {
 protected:
  static EmulatedOptions Options() {
    EmulatedOptions options = GetParam() ? Simulated() : Threaded();
    options.devices.resize(2);
    return options;
  }
};

TEST_P(Events, NeverRecordedIsDone) {
  DeviceRig rig(Options());
  const DeviceEvent event = rig.Event();
  EXPECT_TRUE(rig.Done(event));
  rig.Expect(rig->SyncEvent(event));
  const DeviceStream stream = rig.Stream();
  rig.Expect(rig->StreamWait(stream, event));
  rig.Expect(rig->SyncStream(stream));
}

TEST_P(Events, IsDoneBehindTheWorkThatCameBefore) {
  DeviceRig rig(Options());
  const DeviceStream stream = rig.Stream();
  const DeviceEvent event = rig.Event();
  bool ran = false;
  rig.Hold(stream);
  rig.Expect(rig->LaunchHost(stream, [&] { ran = true; }, {}));
  rig.Expect(rig->Record(event, stream));
  EXPECT_FALSE(rig.Done(event));
  rig.LetGo();
  rig.Await(event);
  EXPECT_TRUE(ran);
}

TEST_P(Events, AWaitOrdersWorkOfTwoDevices) {
  DeviceRig rig(Options());
  const DeviceStream first = rig.Stream(0);
  const DeviceStream second = rig.Stream(1);
  const DeviceEvent event = rig.Event(0);
  std::vector<int> order;
  rig.Hold(first);
  rig.Expect(rig->LaunchHost(first, [&] { order.push_back(0); }, {}));
  rig.Expect(rig->Record(event, first));
  rig.Expect(rig->StreamWait(second, event));
  rig.Expect(rig->BindThread(1));
  rig.Expect(rig->LaunchHost(second, [&] { order.push_back(1); }, {}));
  rig.LetGo();
  rig.Expect(rig->SyncStream(second));
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

TEST_P(Events, AWaitTakesTheStateOfTheCall) {
  DeviceRig rig(Options());
  const DeviceStream slow = rig.Stream();
  const DeviceStream waiting = rig.Stream(1);
  const DeviceEvent event = rig.Event();
  rig.Expect(rig->Record(event, slow));
  rig.Expect(rig->StreamWait(waiting, event));
  rig.Hold(slow);
  rig.Expect(rig->Record(event, slow));
  // Not behind the second record, which is far away.
  rig.Expect(rig->SyncStream(waiting));
  EXPECT_FALSE(rig.Done(event));
}

TEST_P(Events, AWaitBeforeTheRecordWaitsForNothing) {
  DeviceRig rig(Options());
  const DeviceStream slow = rig.Stream();
  const DeviceStream waiting = rig.Stream(1);
  const DeviceEvent event = rig.Event();
  rig.Expect(rig->StreamWait(waiting, event));
  rig.Hold(slow);
  rig.Expect(rig->Record(event, slow));
  rig.Expect(rig->SyncStream(waiting));
  EXPECT_FALSE(rig.Done(event));
}

TEST_P(Events, AnEventThatIsDestroyedStillOrders) {
  DeviceRig rig(Options());
  const DeviceStream first = rig.Stream();
  const DeviceStream second = rig.Stream(1);
  const DeviceEvent event = rig.Event();
  bool ran = false;
  bool seen = false;
  rig.Hold(first);
  rig.Expect(rig->LaunchHost(first, [&] { ran = true; }, {}));
  rig.Expect(rig->Record(event, first));
  rig.Expect(rig->StreamWait(second, event));
  rig.Expect(rig->DestroyEvent(event));
  rig.Expect(rig->BindThread(1));
  rig.Expect(rig->LaunchHost(second, [&] { seen = ran; }, {}));
  rig.LetGo();
  rig.Expect(rig->SyncStream(second));
  EXPECT_TRUE(seen);
}

TEST_P(Events, ARecordReplacesTheOneBefore) {
  DeviceRig rig(Options());
  const DeviceStream stream = rig.Stream();
  const DeviceEvent event = rig.Event();
  rig.Expect(rig->Record(event, stream));
  rig.Await(event);
  rig.Hold(stream);
  rig.Expect(rig->Record(event, stream));
  EXPECT_FALSE(rig.Done(event));
  rig.LetGo();
  rig.Expect(rig->SyncEvent(event));
  EXPECT_TRUE(rig.Done(event));
}

TEST_P(Events, ManyRecordsOfOneStreamAreEachTheirOwn) {
  DeviceRig rig(Options());
  const DeviceStream stream = rig.Stream();
  constexpr int kRecords = 2'000;
  std::vector<DeviceEvent> events;
  for (int i = 0; i < kRecords; ++i) {
    events.push_back(rig.Event());
    rig.Expect(rig->Record(events.back(), stream));
  }
  rig.Await(events.back());
  for (const DeviceEvent event : events) EXPECT_TRUE(rig.Done(event));
  rig.Hold(stream);
  rig.Expect(rig->Record(events.front(), stream));
  EXPECT_FALSE(rig.Done(events.front()));
  EXPECT_TRUE(rig.Done(events.back()));
}

TEST_P(Events, ElapsedIsTheWorkInBetween) {
  DeviceRig rig(Options());
  const DeviceStream stream = rig.Stream();
  const DeviceEvent begin = rig.Event(0, EventKind::kTimed);
  const DeviceEvent end = rig.Event(0, EventKind::kTimed);
  double milliseconds = 0;
  EXPECT_EQ(rig->Elapsed(begin, end, &milliseconds).code(), StatusCode::kInvalidArgument);
  rig.Hold(stream);
  rig.Expect(rig->Record(begin, stream));
  rig.Expect(rig->Busy(stream, 3'000'000));
  rig.Expect(rig->Record(end, stream));
  EXPECT_EQ(rig->Elapsed(begin, end, &milliseconds).code(), StatusCode::kInvalidArgument);
  rig.LetGo();
  rig.Expect(rig->SyncEvent(end));
  rig.Expect(rig->Elapsed(begin, end, &milliseconds));
  EXPECT_GE(milliseconds, 3);
  if (rig->simulated()) {
    EXPECT_DOUBLE_EQ(milliseconds, 3);
  }
  EXPECT_EQ(rig->Elapsed(begin, rig.Event(), &milliseconds).code(), StatusCode::kInvalidArgument);
}

TEST_P(Events, CallsAreCounted) {
  DeviceRig rig(Options());
  const DeviceStream stream = rig.Stream();
  const DeviceEvent event = rig.Event();
  rig.Expect(rig->Record(event, stream));
  rig.Expect(rig->StreamWait(stream, event));
  rig.Expect(rig->SyncEvent(event));
  rig.Expect(rig->SyncStream(stream));
  EXPECT_TRUE(rig.Done(event));
  rig.Expect(rig->DestroyEvent(event));
  EXPECT_EQ(rig->DestroyEvent(event).code(), StatusCode::kInvalidArgument);
  const BackendCounters counters = rig->Counters();
  EXPECT_EQ(counters.records, 1U);
  EXPECT_EQ(counters.stream_waits, 1U);
  EXPECT_EQ(counters.queries, 1U);
  EXPECT_EQ(counters.syncs, 2U);
  EXPECT_EQ(counters.allocations, 4U);
}

INSTANTIATE_TEST_SUITE_P(Executors, Events, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Simulated" : "Threaded";
});

}  // namespace
}  // namespace ringfeed
