#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/gpu/cuda/cuda_fixture.h"

namespace ringfeed {
namespace {

using fake_cudart::LiveNow;

using CudaSetUp = CudaBackendTest;

TEST_F(CudaSetUp, InfoIsTheDevices) {
  NewMemory(1000, 1);
  DeviceInfo info;
  ASSERT_TRUE(cuda_.Info(1, &info).ok());
  EXPECT_EQ(info.name, "Fake GPU n");
  EXPECT_EQ(info.pci_address, "0000:6F:00.0");
  EXPECT_EQ(info.numa_node, 1);
  EXPECT_EQ(info.memory_bytes, std::size_t{1} << 30);
  EXPECT_EQ(info.free_bytes, info.memory_bytes - 1000);  // of device 1, not of the thread's
  EXPECT_EQ(info.copy_engines, 3);
  EXPECT_TRUE(info.registers_host_memory);
}

TEST_F(CudaSetUp, InfoWithoutNumaAndPciIsStillInfo) {
  fake_cudart::Restart({.devices = kDevices, .knows_numa_attribute = false});
  fake_cudart::FailNth("cudaDeviceGetPCIBusId", 1, cudaErrorInvalidValue);
  DeviceInfo info;
  ASSERT_TRUE(cuda_.Info(0, &info).ok());
  EXPECT_EQ(info.pci_address, "");
  EXPECT_EQ(info.numa_node, -1);
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
}

TEST_F(CudaSetUp, DevicesThatThereAreNotAreRefused) {
  DeviceInfo info;
  DeviceStream stream;
  std::byte* data = nullptr;
  for (const int device : {-1, kDevices}) {
    EXPECT_EQ(cuda_.Info(device, &info).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(cuda_.BindThread(device).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(cuda_.AllocDevice(device, 1, &data).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(cuda_.CreateStream(device, StreamPriority::kHigh, &stream).code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(cuda_.DeviceStatus(device).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(fake_cudart::AllCalls(), 0);
}

TEST_F(CudaSetUp, AThreadThatIsOnTheDeviceAlreadyPushesNoContext) {
  ASSERT_TRUE(cuda_.BindThread(1).ok());
  const int before = fake_cudart::Calls("cuCtxPushCurrent");
  std::byte* const data = NewMemory(64, 1);
  EXPECT_EQ(fake_cudart::Calls("cuCtxPushCurrent"), before);
  NewEvent(0);
  EXPECT_EQ(fake_cudart::Calls("cuCtxPushCurrent"), before + 1);
  EXPECT_EQ(fake_cudart::CurrentDevice(), 1);
  EXPECT_TRUE(cuda_.FreeDevice(1, data).ok());
  std::thread([&] { NewEvent(0); }).join();  // one that never chose a device
  EXPECT_EQ(fake_cudart::Calls("cuCtxPushCurrent"), before + 2);
}

TEST_F(CudaSetUp, AfterAResetOfTheDeviceItsNewContextIsUsed) {
  (void)NewStream(1);
  fake_cudart::ResetDevice(1);
  (void)NewStream(1);
  EXPECT_TRUE(cuda_.DeviceStatus(1).ok());
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
}

TEST_F(CudaSetUp, CallsThatNameADeviceLeaveTheThreadsDeviceAsItWas) {
  ASSERT_TRUE(cuda_.BindThread(0).ok());
  DeviceInfo info;
  ASSERT_TRUE(cuda_.Info(1, &info).ok());
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
  std::byte* const data = NewMemory(64, 1);
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
  const DeviceStream stream = NewStream(1);
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
  const DeviceEvent event = NewEvent(1);
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
  EXPECT_TRUE(cuda_.Record(event, stream).ok());  // both are of device 1
  EXPECT_TRUE(cuda_.FreeDevice(1, data).ok());    // as the fake checks
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
}

TEST_F(CudaSetUp, LookingAroundMakesNoContext) {
  DeviceInfo info;
  for (const int device : {0, 1}) {
    ASSERT_TRUE(cuda_.Info(device, &info).ok());
    EXPECT_EQ(info.memory_bytes, std::size_t{1} << 30);
    EXPECT_EQ(info.free_bytes, 0U) << "not known";
    EXPECT_FALSE(fake_cudart::HasContext(device));
  }
}

TEST_F(CudaSetUp, AThreadThatChoseNoDeviceGetsNoContextOnTheFirst) {
  std::jthread([this] {
    std::byte* const data = NewMemory(64, 1);
    NewEvent(1);
    EXPECT_TRUE(cuda_.FreeDevice(1, data).ok());
    EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
  }).join();
  EXPECT_TRUE(fake_cudart::HasContext(1));
  EXPECT_FALSE(fake_cudart::HasContext(0));
}

TEST_F(CudaSetUp, TheThreadsDeviceComesBackWhereTheCallFails) {
  ASSERT_TRUE(cuda_.BindThread(0).ok());
  fake_cudart::FailNth("cudaMalloc", 1, cudaErrorMemoryAllocation);
  std::byte* data = nullptr;
  const Status status = cuda_.AllocDevice(1, 4096, &data);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("device 1: allocate device memory, 4096 bytes"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(data, nullptr);
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
  EXPECT_EQ(fake_cudart::LastError(), cudaSuccess);
}

TEST_F(CudaSetUp, ADeviceThatCannotBeMadeCurrentIsAnErrorAndTheFormerOneComesBack) {
  fake_cudart::FailNth("cuCtxPushCurrent", 1, cudaErrorDevicesUnavailable);
  std::byte* data = nullptr;
  EXPECT_EQ(cuda_.AllocDevice(1, 64, &data).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(fake_cudart::Calls("cudaMalloc"), 0);
  EXPECT_EQ(fake_cudart::CurrentDevice(), 0);
}

TEST_F(CudaSetUp, NoThreadDisturbsACapture) {
  const DeviceEvent event = NewEvent();
  const DeviceStream stream = NewStream();
  fake_cudart::CaptureGlobally(true);
  bool done = false;
  std::byte* data = nullptr;
  std::vector<std::byte> host(4096);
  for (const Status& status :
       {cuda_.Query(event, &done), cuda_.SyncEvent(event), cuda_.SyncStream(stream),
        cuda_.AllocDevice(0, 64, &data), cuda_.FreeDevice(0, data),
        cuda_.RegisterHost(host.data(), host.size()), cuda_.UnregisterHost(host.data())}) {
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_EQ(fake_cudart::CaptureMode(), cudaStreamCaptureModeGlobal) << "the thread's own";
}

TEST_F(CudaSetUp, ABoundThreadIsInTheModeThatDisturbsNoCapture) {
  int device = -1;
  auto mode = cudaStreamCaptureModeGlobal;
  std::jthread([&] {
    ASSERT_TRUE(cuda_.BindThread(1).ok());
    device = fake_cudart::CurrentDevice();
    mode = fake_cudart::CaptureMode();
  }).join();
  EXPECT_EQ(device, 1);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
}

TEST_F(CudaSetUp, StreamsDoNotWaitForTheLegacyStreamAndHaveTheirPriority) {
  DeviceStream stream;
  ASSERT_TRUE(cuda_.CreateStream(0, StreamPriority::kNormal, &stream).ok());
  EXPECT_EQ(fake_cudart::LastPriority(), 0);
  ASSERT_TRUE(cuda_.CreateStream(0, StreamPriority::kHigh, &stream).ok());
  EXPECT_EQ(fake_cudart::LastPriority(), -5);
  EXPECT_EQ(fake_cudart::LastFlags("cudaStreamCreateWithPriority"), cudaStreamNonBlocking);
}

TEST_F(CudaSetUp, PlainEventsTakeNoTime) {
  NewEvent(0, EventKind::kPlain);
  EXPECT_EQ(fake_cudart::LastFlags("cudaEventCreateWithFlags"), cudaEventDisableTiming);
  NewEvent(0, EventKind::kTimed);
  EXPECT_EQ(fake_cudart::LastFlags("cudaEventCreateWithFlags"), cudaEventDefault);
}

TEST_F(CudaSetUp, EverythingCanBeGivenBack) {
  std::vector<std::byte> host(64);
  ASSERT_TRUE(cuda_.RegisterHost(host.data(), host.size()).ok());
  std::byte* const data = NewMemory(64);
  const DeviceStream stream = NewStream();
  const DeviceEvent event = NewEvent();
  EXPECT_TRUE(cuda_.DestroyEvent(event).ok());
  EXPECT_TRUE(cuda_.DestroyStream(stream).ok());
  EXPECT_TRUE(cuda_.FreeDevice(0, data).ok());
  EXPECT_TRUE(cuda_.UnregisterHost(host.data()).ok());
  EXPECT_EQ(LiveNow().allocations + LiveNow().registrations + LiveNow().streams + LiveNow().events,
            0U);
  EXPECT_EQ(cuda_.Counters().allocations, 8U);
}

TEST_F(CudaSetUp, NothingIsNoMemory) {
  std::byte* data = nullptr;
  EXPECT_EQ(cuda_.AllocDevice(0, 0, &data).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cuda_.RegisterHost(nullptr, 64).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_cudart::AllCalls(), 0);
}

TEST_F(CudaSetUp, DestroyingTheBackendCallsNothing) {
  std::vector<std::byte> host(64);
  int calls = 0;
  {
    CudaBackend backend(kDevices);
    DeviceStream stream;
    ASSERT_TRUE(backend.CreateStream(1, StreamPriority::kNormal, &stream).ok());
    ASSERT_TRUE(backend.RegisterHost(host.data(), host.size()).ok());
    calls = fake_cudart::AllCalls();
  }
  EXPECT_EQ(fake_cudart::AllCalls(), calls);
}

}  // namespace
}  // namespace ringfeed
