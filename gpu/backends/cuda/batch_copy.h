#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace ringfeed {

/// Collects copies to the device and enqueues them, many by one call where this CUDA and its driver
/// can do that. On the stack: nothing is allocated.
class BatchCopy {
 public:
  /// `has_batches` is whether the driver knows such calls; cleared once it says that it does not.
  BatchCopy(cudaStream_t stream, std::atomic<bool>* has_batches)
      : stream_(stream), has_batches_(has_batches) {}

  /// One copy more. Enqueues what was collected where there is no room for more.
  cudaError_t Add(std::byte* to, const std::byte* from, std::size_t bytes);
  /// Enqueues what was collected.
  cudaError_t Flush();

 private:
  static constexpr std::size_t kMost = 256;

  cudaError_t FlushOneByOne();

  const cudaStream_t stream_;
  std::atomic<bool>* const has_batches_;
  std::size_t count_ = 0;
  // Not initialised: 6 KiB that each batch would write twice.
  std::array<void*, kMost> to_;
  std::array<void*, kMost> from_;
  std::array<std::size_t, kMost> bytes_;
};

}  // namespace ringfeed
