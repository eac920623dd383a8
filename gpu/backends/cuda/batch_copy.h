#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace ringfeed {

#if CUDART_VERSION >= 12080

/// cudaMemcpyBatchAsync as CUDA 13.0 declares it: host to device copies, each source read in the
/// stream's order.
inline cudaError_t CallMemcpyBatch(
    cudaError_t (*function)(void* const*, const void* const*, const std::size_t*, std::size_t,
                            cudaMemcpyAttributes*, std::size_t*, std::size_t, cudaStream_t),
    void** to, void** from, std::size_t* bytes, std::size_t count, cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  return function(to, const_cast<const void* const*>(from), bytes, count, &attributes, &first, 1,
                  stream);
}

/// The same as CUDA 12.8 and 12.9 declare it, which differ in the places of const.
template <class To, class From, class Bytes>
cudaError_t CallMemcpyBatch(cudaError_t (*function)(To, From, Bytes, std::size_t,
                                                    cudaMemcpyAttributes*, std::size_t*,
                                                    std::size_t, std::size_t*, cudaStream_t),
                            void** to, void** from, std::size_t* bytes, std::size_t count,
                            cudaStream_t stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  std::size_t failed = 0;  // the error says enough
  return function(const_cast<To>(to), const_cast<From>(from), bytes, count, &attributes, &first, 1,
                  &failed, stream);
}

#endif

/// One call for many copies, if this CUDA has such a call; else cudaErrorNotSupported.
inline cudaError_t MemcpyBatch(void** to, void** from, std::size_t* bytes, std::size_t count,
                               cudaStream_t stream) {
#if CUDART_VERSION >= 12080
  return CallMemcpyBatch(&cudaMemcpyBatchAsync, to, from, bytes, count, stream);
#else
  static_cast<void>(to), static_cast<void>(from), static_cast<void>(bytes);
  static_cast<void>(count), static_cast<void>(stream);
  return cudaErrorNotSupported;
#endif
}

/// Collects copies to the device and enqueues them, many by one call if this CUDA and its driver
/// can do that. It lives on the stack and allocates nothing.
class BatchCopy {
 public:
  /// `has_batches`: whether the driver knows such calls. Cleared when the driver says that it does
  /// not.
  BatchCopy(cudaStream_t stream, std::atomic<bool>* has_batches)
      : stream_(stream), has_batches_(has_batches) {}

  /// Adds a copy. If there is no room for it, enqueues the collected copies first.
  cudaError_t Add(std::byte* to, const std::byte* from, std::size_t bytes);
  /// Enqueues the collected copies.
  cudaError_t Flush();

 private:
  static constexpr std::size_t kMost = 256;

  cudaError_t FlushOneByOne();

  const cudaStream_t stream_;
  std::atomic<bool>* const has_batches_;
  std::size_t count_ = 0;
  // Not initialised: that would write 6 KiB a second time for each batch.
  std::array<void*, kMost> to_;
  std::array<void*, kMost> from_;
  std::array<std::size_t, kMost> bytes_;
};

}  // namespace ringfeed
