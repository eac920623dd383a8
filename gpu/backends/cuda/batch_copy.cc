#include "gpu/backends/cuda/batch_copy.h"

namespace ringfeed {

cudaError_t BatchCopy::Add(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return cudaSuccess;  // a batch refuses it, a single copy does not
  to_[count_] = to;
  from_[count_] = const_cast<std::byte*>(from);
  bytes_[count_] = bytes;
  ++count_;
  return count_ < kMost ? cudaSuccess : Flush();
}

cudaError_t BatchCopy::Flush() {
  if (count_ < 2 || !has_batches_->load(std::memory_order_relaxed)) return FlushOneByOne();
  const cudaError_t error = MemcpyBatch(to_.data(), from_.data(), bytes_.data(), count_, stream_);
  if (error == cudaErrorNotSupported || error == cudaErrorCallRequiresNewerDriver) {
    static_cast<void>(cudaGetLastError());
    has_batches_->store(false, std::memory_order_relaxed);
    return FlushOneByOne();
  }
  count_ = 0;
  return error;
}

cudaError_t BatchCopy::FlushOneByOne() {
  cudaError_t error = cudaSuccess;
  for (std::size_t i = 0; i < count_ && error == cudaSuccess; ++i) {
    error = cudaMemcpyAsync(to_[i], from_[i], bytes_[i], cudaMemcpyHostToDevice, stream_);
  }
  count_ = 0;
  return error;
}

}  // namespace ringfeed
