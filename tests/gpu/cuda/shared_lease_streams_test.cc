// Which streams of a program's a slot waits for before it is written again, of consumers that take
// a batch by __cuda_array_interface__. Over the fake runtime, which keeps the rules of CUDA's
// default stream.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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

// The thread that releases may have another per-thread stream than the one that computes.
TEST_F(SharedLeaseStreams, ThePerThreadStreamOfThePlanIsWaitedForByTheDefaultStreamToo) {
  const auto shared = SharedLease::Of(
      Next(),
      {reinterpret_cast<void*>(static_cast<std::uintptr_t>(SharedLease::kPerThreadStream))});
  const int before = fake_cudart::Calls("cudaStreamWaitEvent");
  shared->UseOnNumbered(SharedLease::kLegacyStream);  // it is used there already
  EXPECT_EQ(fake_cudart::Calls("cudaStreamWaitEvent"), before);
}

TEST_F(SharedLeaseStreams, SoIsThatOfALeaseOfOneOwner) {
  DeviceLease lease = Next();
  (void)lease.On({cudaStreamPerThread});
  const int before = fake_cudart::Calls("cudaStreamWaitEvent");
  (void)lease.On({cudaStreamLegacy});  // it is used there already
  EXPECT_EQ(fake_cudart::Calls("cudaStreamWaitEvent"), before);
}

}  // namespace
}  // namespace ringfeed
