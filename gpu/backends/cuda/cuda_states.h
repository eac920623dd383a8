#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ringfeed/status.h"

namespace ringfeed {

/// After the first call, in a process forked from this one: the Status that CUDA cannot be used.
/// Else OK. Thread safe.
Status StatusAfterFork();

/// Which devices are in use, and which are lost and why. Thread safe; asking takes no lock.
class CudaDeviceStates {
 public:
  explicit CudaDeviceStates(int devices);

  int devices() const { return devices_; }
  /// `device` has work of ours from now on.
  void NoteUsed(int device);
  bool IsUsed(int device) const {
    return states_[static_cast<std::size_t>(device)].used.load(std::memory_order_relaxed);
  }
  /// The first failure of a device is kept.
  void NoteLost(int device, const Status& failure);
  /// Whether any device may be lost, so that it is worth asking for each.
  bool any_lost() const { return any_lost_.load(std::memory_order_relaxed); }
  /// The failure that lost the device, else OK.
  Status Lost(int device) const;
  /// A device that is in use and not lost; -1 if there is none.
  int FirstInUse() const;

 private:
  struct State {
    std::atomic<bool> used = false;
    std::atomic<bool> lost = false;
    Status failure{};  ///< written once, before `lost`
  };

  const int devices_;
  const std::unique_ptr<State[]> states_;
  std::mutex mutex_;
  std::atomic<bool> any_lost_ = false;
};

/// The device of each stream and event that the backend made. CUDA's runtime cannot be asked after
/// a device is lost, which is when it matters. Thread safe.
class HandleDevices {
 public:
  static constexpr int kUnknown = -1;

  void Add(const void* handle, int device) {
    const std::lock_guard lock(mutex_);
    devices_[handle] = device;
  }
  void Remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    devices_.erase(handle);
  }
  /// kUnknown for handles that the backend did not make.
  int Find(const void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = devices_.find(handle);
    return found == devices_.end() ? kUnknown : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, int> devices_;
};

/// Host memory that CUDA has registered. One CUDA call registers 16 GiB at most: drivers since r580
/// refuse 512 GiB at once, and a long call would keep other threads out of CUDA. So larger ranges
/// are registered in pieces, and a copy must not cross from one into the next. All borders are at
/// multiples of the pieces' size in the address space, so a copy's address alone tells whether it
/// crosses one.
class HostRegistrations {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{16} << 30;

  /// `piece_bytes` is a power of two, a page at least.
  explicit HostRegistrations(std::size_t piece_bytes = kPieceBytes) : piece_bytes_(piece_bytes) {}

  /// Registers [data, data + bytes) on the calling thread's current device, for all devices. If a
  /// piece fails, unregisters the earlier ones again. Refuses ranges that overlap.
  cudaError_t Register(std::byte* data, std::size_t bytes);
  /// Unregisters the range that starts at `data`; cudaErrorHostMemoryNotRegistered if there is
  /// none. Tries every piece, forgets the range even if CUDA fails, and returns the first failure.
  cudaError_t Unregister(std::byte* data);
  /// Forgets the range without calling CUDA, for use after its devices are lost; false if it is not
  /// registered.
  bool Forget(const std::byte* data);

  /// How many of `bytes` bytes at `data` come before the next border.
  std::size_t PieceAt(const std::byte* data, std::size_t bytes) const {
    const std::size_t into = reinterpret_cast<std::uintptr_t>(data) & (piece_bytes_ - 1);
    return std::min(bytes, piece_bytes_ - into);
  }

 private:
  /// Notes the range; false if it overlaps another one.
  bool Reserve(const std::byte* data, std::size_t bytes);
  /// Unregisters the pieces of [data, data + bytes); returns the first failure.
  cudaError_t UnregisterPieces(std::byte* data, std::size_t bytes) const;

  const std::size_t piece_bytes_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> ranges_;
};

}  // namespace ringfeed
