#include "gpu/feed/stream_clock.h"

#include <gtest/gtest.h>

#include <memory>

#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kBusyNanos = 100'000'000;
constexpr std::int64_t kRoundedNanos = 100;       // of a tenth of a second
constexpr std::int64_t kSlackNanos = 20'000'000;  // a machine under load

// Of work that is enqueued now.
void CheckTime(DeviceBackend* backend, StreamClock& clock, DeviceStream stream,
               std::int64_t slack_ns) {
  ASSERT_TRUE(backend->SyncStream(stream).ok());
  DeviceEvent event;
  ASSERT_TRUE(backend->CreateEvent(0, EventKind::kTimed, &event).ok());
  const std::int64_t before_ns = backend->NowNanos();
  ASSERT_TRUE(backend->Record(event, stream).ok());
  ASSERT_TRUE(backend->SyncEvent(event).ok());
  std::int64_t at_ns = 0;
  ASSERT_TRUE(clock.At(event, &at_ns).ok());
  EXPECT_GE(at_ns, before_ns - slack_ns);
  EXPECT_LE(at_ns, backend->NowNanos() + slack_ns);
  EXPECT_TRUE(backend->DestroyEvent(event).ok());
}

class StreamClockTest : public testing::TestWithParam<bool> {};

TEST_P(StreamClockTest, TellsTheTimeAlsoOfAStreamThatWasLate) {
  EmulatedOptions options;
  options.simulated = GetParam();
  const std::shared_ptr<EmulatedDevices> devices = EmulatedDevices::Open(options);
  ASSERT_TRUE(devices->BindThread(0).ok());
  DeviceStream stream;
  ASSERT_TRUE(devices->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  ASSERT_TRUE(devices->Busy(stream, kBusyNanos).ok());
  StreamClock clock;
  ASSERT_TRUE(clock.Open(devices, 0, stream).ok());
  CheckTime(devices.get(), clock, stream, GetParam() ? kRoundedNanos : kSlackNanos);
  clock.Close();
  EXPECT_TRUE(devices->DestroyStream(stream).ok());
  EXPECT_TRUE(devices->Leaks().none());
}

// Devices tell the time between events as a float: 2^-24 of it is lost.
TEST(LongStreamClockTest, IsAsExactAfterAnHour) {
  EmulatedOptions options;
  options.simulated = true;
  const std::shared_ptr<EmulatedDevices> devices = EmulatedDevices::Open(options);
  ASSERT_TRUE(devices->BindThread(0).ok());
  DeviceStream stream;
  ASSERT_TRUE(devices->CreateStream(0, StreamPriority::kNormal, &stream).ok());
  StreamClock clock;
  ASSERT_TRUE(clock.Open(devices, 0, stream).ok());
  constexpr std::int64_t kBatchNanos = 7'345'678'901;
  for (int batch = 0; batch < 500; ++batch) {
    ASSERT_TRUE(devices->Busy(stream, kBatchNanos).ok());
    CheckTime(devices.get(), clock, stream, 50'000);
  }
  clock.Close();
  EXPECT_TRUE(devices->DestroyStream(stream).ok());
  EXPECT_TRUE(devices->Leaks().none());
}

INSTANTIATE_TEST_SUITE_P(Times, StreamClockTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "simulated" : "real"; });

}  // namespace
}  // namespace ringfeed
