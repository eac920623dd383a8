// Which streams of a program's a slot waits for before it is written again, of consumers that take
// a batch by __cuda_array_interface__. Over the fake runtime, which keeps the rules of CUDA's
// default stream.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/backends/cuda/cuda_backend.h"
#include "gpu/feed/feed_core.h"
#include "ringfeed/export/shared_lease.h"
#include "tests/gpu/cuda/fake_cudart.h"
#include "tests/gpu/feed/numbered_batches.h"

namespace ringfeed {
namespace {

class SharedLeaseStreams : public testing::Test {
 protected:
  static constexpr std::uint32_t kFirst = 0;      // of the first batch
  static constexpr std::uint32_t kThird = 2'000;  // of the one that gets its slot

  SharedLeaseStreams() {
    fake_cudart::Restart({.devices = 1});
    backend_ = std::make_shared<CudaBackend>(1);
    EXPECT_TRUE(backend_->BindThread(0).ok());
    FeedOptions options;
    options.backend = backend_;
    options.devices = {0};
    options.slots = 2;
    core_ = FeedCore::Start(std::make_unique<NumberedSupply>(
                                NumberedSupply::Options{.batches = 3, .poison = false}, backend_),
                            options, {.threads = false});
  }
  ~SharedLeaseStreams() override {
    EXPECT_TRUE(core_->Close().ok());
    for (const cudaStream_t stream : made_) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }

  cudaStream_t NewStream(unsigned int flags) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, flags, 0), cudaSuccess);
    made_.push_back(stream);
    return stream;
  }
  static std::int64_t NumberOf(cudaStream_t stream) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(stream));
  }
  DeviceLease Next() {
    DeviceLease lease;
    Status status;
    EXPECT_EQ(core_->TryNext(&lease, &status), ReadResult::kRecord) << status.ToString();
    return lease;
  }

  /// What a consumer reads of the first batch whose stream comes to it only after two more batches
  /// were handed out. `take` is how it takes the batch.
  template <typename Take>
  std::uint32_t ReadLate(cudaStream_t consumer, DeviceStream plan, Take&& take) {
    std::uint32_t seen = ~0U;
    {
      const auto shared = SharedLease::Of(Next(), plan);
      take(shared.get());
      const Instance tensors = shared->Tensors();
      const std::byte* const data = tensors[0].data;
      fake_cudart::Hold(consumer, true);
      EXPECT_EQ(fake_cudart::LaunchHost(consumer,
                                        [&seen, data] { std::memcpy(&seen, data, sizeof seen); }),
                cudaSuccess);
    }
    for (int batch = 1; batch < 3; ++batch) (void)Next();
    fake_cudart::Hold(consumer, false);
    return seen;
  }

  std::shared_ptr<CudaBackend> backend_;
  std::shared_ptr<FeedCore> core_;
  std::vector<cudaStream_t> made_;
};

TEST_F(SharedLeaseStreams, WithoutAStreamOfThePlanTheDefaultStreamIsToldAndWaitedFor) {
  const auto take = [](SharedLease* lease) {
    EXPECT_EQ(lease->InterfaceStream(), SharedLease::kLegacyStream);
  };
  EXPECT_EQ(ReadLate(cudaStreamLegacy, {}, take), kFirst);
}

TEST_F(SharedLeaseStreams, AStreamThatWaitsForTheDefaultStreamIsWaitedFor) {
  const auto take = [](SharedLease* lease) { (void)lease->InterfaceStream(); };
  EXPECT_EQ(ReadLate(NewStream(cudaStreamDefault), {}, take), kFirst);
}

TEST_F(SharedLeaseStreams, AConsumerOnAnotherStreamThanThePlansIsWaitedFor) {
  const cudaStream_t plan = NewStream(cudaStreamNonBlocking);
  const auto take = [&](SharedLease* lease) {
    EXPECT_EQ(lease->InterfaceStream(), NumberOf(plan));
  };
  EXPECT_EQ(ReadLate(NewStream(cudaStreamDefault), {plan}, take), kFirst);
}

TEST_F(SharedLeaseStreams, AStreamThatWaitsForNobodyIsWaitedForWhereItIsNamed) {
  const cudaStream_t consumer = NewStream(cudaStreamNonBlocking);
  const auto take = [&](SharedLease* lease) {
    lease->UseOnNumbered(NumberOf(consumer));
    EXPECT_EQ(lease->InterfaceStream(NumberOf(consumer)), NumberOf(consumer));
  };
  EXPECT_EQ(ReadLate(consumer, {}, take), kFirst);
}

// What no release can know of. docs/PYTHON.md says so.
TEST_F(SharedLeaseStreams, AStreamThatWaitsForNobodyAndIsNotNamedIsNotWaitedFor) {
  const auto take = [](SharedLease* lease) { (void)lease->InterfaceStream(); };
  EXPECT_EQ(ReadLate(NewStream(cudaStreamNonBlocking), {}, take), kThird);
}

// It can wait for the batch, but no event says when it is done with it.
TEST_F(SharedLeaseStreams, AStreamOfAnotherContextIsRefusedAndTheFeedGoesOn) {
  const cudaStream_t other = NewStream(cudaStreamNonBlocking);
  fake_cudart::SetOtherContext(other);
  for (std::uint64_t batch = 0; batch < 3; ++batch) {
    DeviceLease lease = Next();
    ASSERT_EQ(lease.number(), batch);
    try {
      (void)lease.On({other});
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("another CUDA context"), std::string::npos)
          << error.what();
    }
    (void)lease.On({cudaStreamLegacy});
  }
  EXPECT_EQ(fake_cudart::Calls("cudaStreamWaitEvent"), 3 + 1);  // the last: of a copy
}

TEST_F(SharedLeaseStreams, ThePerThreadStreamIsWaitedForWithoutTheDefaultStream) {
  const auto take = [](SharedLease* lease) {
    lease->UseOnNumbered(SharedLease::kPerThreadStream);
    lease->UseOnNumbered(SharedLease::kPerThreadStream);
  };
  fake_cudart::Hold(cudaStreamLegacy, true);  // who waits for it hangs
  EXPECT_EQ(ReadLate(cudaStreamPerThread, {cudaStreamPerThread}, take), kFirst);
  fake_cudart::Hold(cudaStreamLegacy, false);
}

TEST_F(SharedLeaseStreams, APerThreadStreamIsWaitedForIfAnotherThreadReleases) {
  std::uint32_t seen = ~0U;
  DeviceLease lease = Next();
  const std::byte* const data = lease.On({cudaStreamPerThread})[0].data;
  fake_cudart::Hold(cudaStreamPerThread, true);
  const auto look = [&seen, data] { std::memcpy(&seen, data, sizeof seen); };
  EXPECT_EQ(fake_cudart::LaunchHost(cudaStreamPerThread, look), cudaSuccess);
  std::thread([&lease] { lease.Release(); }).join();
  for (int batch = 1; batch < 3; ++batch) (void)Next();
  fake_cudart::Hold(cudaStreamPerThread, false);
  EXPECT_EQ(seen, kFirst);
}

TEST_F(SharedLeaseStreams, ThePerThreadStreamsOfTwoThreadsAreTwo) {
  DeviceLease lease = Next();
  (void)lease.On({cudaStreamPerThread});
  const int before = fake_cudart::Calls("cudaStreamWaitEvent");
  std::thread([&lease] { (void)lease.On({cudaStreamPerThread}); }).join();
  EXPECT_EQ(fake_cudart::Calls("cudaStreamWaitEvent"), before + 1);
}

}  // namespace
}  // namespace ringfeed
