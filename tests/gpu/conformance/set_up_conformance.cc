#include "tests/gpu/conformance/set_up_conformance.h"

#include <optional>
#include <utility>

#include "gpu/feed/feed_core.h"
#include "gpu/feed/memory_batches.h"
#include "ringfeed/devices/topology.h"
#include "tests/gpu/conformance/backend_conformance.h"

namespace ringfeed {
namespace {

using Devices = std::vector<int>;

TEST_P(SetUpConformance, LookingAroundSetsUpNothing) {
  EXPECT_EQ(backend()->DeviceCount(), kDevices);
  for (int device = 0; device < kDevices; ++device) {
    DeviceInfo info;
    EXPECT_TRUE(Ok(backend()->Info(device, &info)));
    EXPECT_TRUE(Ok(backend()->DeviceStatus(device)));
  }
  EXPECT_EQ(FindTopology(backend().get()).devices.size(), std::size_t{kDevices});
  EXPECT_EQ(set_up(), Devices{});
}

TEST_P(SetUpConformance, EachCallThatNeedsADeviceSetsUpThatOneAlone) {
  DeviceStream stream;
  DeviceEvent event;
  std::byte* data = nullptr;
  EXPECT_TRUE(Ok(backend()->AllocDevice(3, 1000, &data)));
  EXPECT_EQ(set_up(), Devices{3});
  EXPECT_TRUE(Ok(backend()->CreateStream(1, StreamPriority::kNormal, &stream)));
  EXPECT_EQ(set_up(), (Devices{1, 3}));
  EXPECT_TRUE(Ok(backend()->CreateEvent(0, EventKind::kPlain, &event)));
  EXPECT_EQ(set_up(), (Devices{0, 1, 3}));
  EXPECT_TRUE(Ok(backend()->BindThread(2)));
  EXPECT_EQ(set_up(), (Devices{0, 1, 2, 3}));
  EXPECT_TRUE(Ok(backend()->DestroyEvent(event)));
  EXPECT_TRUE(Ok(backend()->DestroyStream(stream)));
  EXPECT_TRUE(Ok(backend()->FreeDevice(3, data)));
}

TEST_P(SetUpConformance, LoadingKernelsSetsUpTheirDevice) {
  EXPECT_TRUE(Ok(backend()->LoadKernels(2)));
  EXPECT_EQ(set_up(), Devices{2});
}

// Registrations are for all devices, but one of them makes them.
TEST_P(SetUpConformance, RegisteringTakesADeviceThatIsInUse) {
  AlignedBuffer buffer(4096);
  DeviceStream stream;
  EXPECT_TRUE(Ok(backend()->CreateStream(2, StreamPriority::kNormal, &stream)));
  EXPECT_TRUE(Ok(backend()->RegisterHost(buffer.data(), buffer.size())));
  EXPECT_TRUE(Ok(backend()->UnregisterHost(buffer.data())));
  EXPECT_TRUE(Ok(backend()->DestroyStream(stream)));
  EXPECT_EQ(set_up(), Devices{2});
}

TEST_P(SetUpConformance, RegisteringAloneTakesTheThreadsDevice) {
  AlignedBuffer buffer(4096);
  EXPECT_TRUE(Ok(backend()->RegisterHost(buffer.data(), buffer.size())));
  EXPECT_TRUE(Ok(backend()->UnregisterHost(buffer.data())));
  EXPECT_EQ(set_up(), Devices{0});
}

TEST_P(SetUpConformance, AFeedOnOneDeviceLeavesTheOthersAlone) {
  const MemoryBatches batches(std::size_t{64} << 10, 2);
  FeedOptions options;
  options.backend = backend();
  options.devices = {1};
  options.last_step = LastStep::kPad;  // its kernels too
  const auto feed = FeedCore::Start(batches.Supply(20), options);
  DeviceStream stream;
  ASSERT_TRUE(Ok(backend()->CreateStream(1, StreamPriority::kNormal, &stream)));
  DeviceLease lease;
  Status status;
  int taken = 0;
  while (feed->TryNext(&lease, &status) == ReadResult::kRecord) {
    (void)lease.On(stream);
    ++taken;
  }
  EXPECT_EQ(taken, 20) << status.ToString();
  EXPECT_TRUE(Ok(feed->Close()));
  EXPECT_EQ(feed->Stats().pinning, "");
  EXPECT_TRUE(Ok(backend()->DestroyStream(stream)));
  EXPECT_EQ(set_up(), Devices{1});
}

}  // namespace

// On a machine's GPUs contexts stay, and are not the test's alone.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SetUpConformance);

}  // namespace ringfeed
