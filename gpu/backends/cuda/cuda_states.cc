#include "gpu/backends/cuda/cuda_states.h"

#include <pthread.h>

#include <cstddef>
#include <iterator>

namespace ringfeed {

namespace {

std::atomic<bool> forked = false;  // set by the child's only thread

bool WatchForks() {
  return pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); }) ==
         0;
}

}  // namespace

Status StatusAfterFork() {
  [[maybe_unused]] static const bool watched = WatchForks();
  if (!forked.load(std::memory_order_relaxed)) [[likely]] {
    return {};
  }
  return Status(
      StatusCode::kUnsupported,
      "CUDA: this process was forked from one that had CUDA open, and CUDA does not work in "
      "such a process: start it afresh (multiprocessing's \"spawn\"), or fork before "
      "devices are opened");
}

CudaDeviceStates::CudaDeviceStates(int devices)
    : devices_(devices), states_(std::make_unique<State[]>(static_cast<std::size_t>(devices))) {}

void CudaDeviceStates::NoteUsed(int device) {
  std::atomic<bool>& used = states_[static_cast<std::size_t>(device)].used;
  if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_relaxed);
}

void CudaDeviceStates::NoteLost(int device, const Status& failure) {
  const std::lock_guard lock(mutex_);
  State& state = states_[static_cast<std::size_t>(device)];
  if (state.lost.load(std::memory_order_relaxed)) return;
  state.failure = failure;
  state.lost.store(true, std::memory_order_release);  // partner: the load in Lost
  any_lost_.store(true, std::memory_order_relaxed);
}

Status CudaDeviceStates::Lost(int device) const {
  const State& state = states_[static_cast<std::size_t>(device)];
  if (!state.lost.load(std::memory_order_acquire)) [[likely]] {  // partner: the store in NoteLost
    return {};
  }
  return state.failure;
}

int CudaDeviceStates::FirstInUse() const {
  for (int device = 0; device < devices_; ++device) {
    const State& state = states_[static_cast<std::size_t>(device)];
    if (state.used.load(std::memory_order_relaxed) && !state.lost.load(std::memory_order_relaxed)) {
      return device;
    }
  }
  return -1;
}

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
