// Captures of graphs beside a feed, by CUDA's own runtime: what a training loop that replays
// graphs does. Skips where there is no device.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "ringfeed/device_feed.h"
#include "ringfeed/devices/cuda_devices.h"
#include "tests/gpu/feed/counting_rows.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kRows = 100'000;
constexpr std::size_t kBatch = 100;

class CudaCapture : public testing::Test {
 protected:
  void SetUp() override {
    Status why_not;
    devices_ = OpenCudaDevices(&why_not);
    if (devices_ == nullptr) GTEST_SKIP() << why_not.ToString();
    ASSERT_TRUE(devices_->BindThread(0).ok());
    // As threads of training loops are, which know nothing of ringfeed.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&memory_, 4096), cudaSuccess);
  }
  void TearDown() override {
    if (devices_ == nullptr) return;
    EXPECT_EQ(cudaFree(memory_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }

  FeedOptions Options() {
    FeedOptions options;
    options.backend = devices_;
    options.devices = {0};
    return options;
  }
  DeviceStream stream() const { return {stream_}; }
  void Begin(cudaStreamCaptureMode mode) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(memory_, 7, 4096, stream_), cudaSuccess);
  }
  /// The capture is whole, and can be run.
  void End() {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    ASSERT_NE(graph, nullptr);
    std::size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(nodes, 1U) << "something else came into the graph";
    cudaGraphExec_t runnable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&runnable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(runnable, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(runnable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }

  std::shared_ptr<DeviceBackend> devices_;
  cudaStream_t stream_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(CudaCapture, AFeedRunsBesideACaptureOfAnotherThread) {
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> batches = 0;
  std::thread consumer([&] {
    ASSERT_TRUE(devices_->BindThread(0).ok());
    DeviceFeed feed(CountingBatches(kRows, kBatch), Options());
    while (!stop) {
      auto lease = feed.Next();
      if (!lease) {
        feed.ReInit();
        continue;
      }
      EXPECT_NO_THROW((void)lease->WaitHost());
      ++batches;
    }
  });
  for (int times = 0; times < 20; ++times) {
    const std::uint64_t before = batches;
    Begin(cudaStreamCaptureModeGlobal);
    for (int look = 0; look < 200 && batches < before + 5; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GT(batches, before) << "the feed stood still";
    End();
  }
  stop = true;
  consumer.join();
}

TEST_F(CudaCapture, ALeaseIsNotUsedInACapture) {
  DeviceFeed feed(CountingBatches(kRows, kBatch), Options());
  auto lease = feed.Next();
  Begin(cudaStreamCaptureModeThreadLocal);
  try {
    (void)lease->On(stream());
    ADD_FAILURE() << "it became a part of the graph";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(error.status().message().find("captur"), std::string::npos)
        << error.status().ToString();
  }
  End();
  EXPECT_NO_THROW((void)lease->On(stream()));
}

TEST_F(CudaCapture, ALeaseThatIsReleasedInACaptureComesBackAfterIt) {
  DeviceFeed feed(CountingBatches(kRows, kBatch), Options());
  for (int times = 0; times < 5; ++times) {
    auto lease = feed.Next();
    (void)lease->On(stream());
    Begin(cudaStreamCaptureModeThreadLocal);
    lease->Release();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    End();
  }
  for (int batch = 0; batch < 20; ++batch) {
    auto lease = feed.Next();
    ASSERT_TRUE(lease);
    (void)lease->On(stream());
  }
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(feed.Close().ok());
}

TEST_F(CudaCapture, ClosingInACaptureOfThisThreadWaitsForCopiesAllTheSame) {
  for (int times = 0; times < 5; ++times) {
    DeviceFeed feed(CountingBatches(kRows, kBatch), Options());
    auto lease = feed.Next();
    Begin(cudaStreamCaptureModeGlobal);
    lease->Release();
    const Status closed = feed.Close();
    EXPECT_TRUE(closed.ok()) << closed.ToString();
    End();
  }
}

}  // namespace
}  // namespace ringfeed
