#include "gpu/backends/cuda/host_registrations.h"

#include <iterator>

namespace ringfeed {

bool HostRegistrations::Reserve(const std::byte* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.lower_bound(data);
  if (after != ranges_.end() && after->first < data + bytes) return false;
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second > data) return false;
  }
  ranges_.emplace_hint(after, data, bytes);
  return true;
}

cudaError_t HostRegistrations::Register(std::byte* data, std::size_t bytes) {
  if (!Reserve(data, bytes)) return cudaErrorHostMemoryAlreadyRegistered;
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t piece = PieceAt(data + done, bytes - done);
    const cudaError_t error =
        cudaHostRegister(data + done, piece, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      static_cast<void>(UnregisterPieces(data, done));
      static_cast<void>(Forget(data));
      return error;
    }
    done += piece;
  }
  return cudaSuccess;
}

cudaError_t HostRegistrations::Unregister(std::byte* data) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(data);
    if (found == ranges_.end()) return cudaErrorHostMemoryNotRegistered;
    bytes = found->second;
    ranges_.erase(found);
  }
  return UnregisterPieces(data, bytes);
}

bool HostRegistrations::Forget(const std::byte* data) {
  const std::lock_guard lock(mutex_);
  return ranges_.erase(data) == 1;
}

cudaError_t HostRegistrations::UnregisterPieces(std::byte* data, std::size_t bytes) const {
  cudaError_t first = cudaSuccess;
  for (std::size_t done = 0; done < bytes; done += PieceAt(data + done, bytes - done)) {
    const cudaError_t error = cudaHostUnregister(data + done);
    if (error == cudaSuccess) continue;
    static_cast<void>(cudaGetLastError());
    if (first == cudaSuccess) first = error;
  }
  return first;
}

}  // namespace ringfeed
