#include "gpu/backends/cuda/cuda_device_states.h"

#include <cstddef>

namespace ringfeed {

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

}  // namespace ringfeed
