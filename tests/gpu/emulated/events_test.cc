#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/gpu/emulated/device_rig.h"

namespace ringfeed {
namespace {

/// On both clocks, two devices.
class Events : public testing::TestWithParam<bool> {
 protected:
  static EmulatedOptions Options() {
    EmulatedOptions options = GetParam() ? Simulated() : Threaded();
    options.devices.resize(2);
    return options;
  }
};

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

INSTANTIATE_TEST_SUITE_P(Clocks, Events, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Simulated" : "Threaded";
});

}  // namespace
}  // namespace ringfeed
