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

/// From the first call on: that CUDA cannot be used, in processes that are forked from this one;
/// else OK. Thread safe.
Status StatusAfterFork();

/// Which devices are in use, and which are lost and by what. Thread safe; asking takes no lock.
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
  /// Whether it is worth asking for each device.
  bool any_lost() const { return any_lost_.load(std::memory_order_relaxed); }
  /// The failure that the device is lost by, else OK.
  Status Lost(int device) const;
  /// A device that is in use and not lost; -1 where there is none.
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

/// Which device the streams and events that the backend made are of: CUDA's runtime cannot be asked
/// once a device is lost, when it matters. Thread safe.
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
  /// kUnknown for handles that were made elsewhere.
  int Find(const void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = devices_.find(handle);
    return found == devices_.end() ? kUnknown : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, int> devices_;
};

/// Host memory that CUDA has registered. A call of CUDA's takes 16 GiB at most: drivers since r580
/// refuse 512 GiB at once, and one that took long would keep other threads out of CUDA. So larger
/// ranges are registered in pieces, and a copy must not cross from one into the next. All borders
/// lie at multiples of the pieces' size in the address space, so whether a copy crosses one can be
/// told by its address, without a look at what is registered.
class HostRegistrations {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{16} << 30;

  /// `piece_bytes` is a power of two, a page at least.
  explicit HostRegistrations(std::size_t piece_bytes = kPieceBytes) : piece_bytes_(piece_bytes) {}

  /// Registers [data, data + bytes) on the calling thread's current device, for all devices. Where
  /// a piece fails the earlier ones are unregistered again. Ranges that overlap are refused.
  cudaError_t Register(std::byte* data, std::size_t bytes);
  /// By the start of a registered range; cudaErrorHostMemoryNotRegistered for others. The range is
  /// forgotten also where CUDA fails; then the first failure is returned, and every piece was
  /// tried.
  cudaError_t Unregister(std::byte* data);
  /// Forgets the range without CUDA, where its devices are lost; false for no registered range.
  bool Forget(const std::byte* data);

  /// How many of `bytes` bytes at `data` come before the next border.
  std::size_t PieceAt(const std::byte* data, std::size_t bytes) const {
    const std::size_t into = reinterpret_cast<std::uintptr_t>(data) & (piece_bytes_ - 1);
    return std::min(bytes, piece_bytes_ - into);
  }

 private:
  /// Notes the range; false where it overlaps another one.
  bool Reserve(const std::byte* data, std::size_t bytes);
  /// Unregisters the pieces of [data, data + bytes); the first failure.
  cudaError_t UnregisterPieces(std::byte* data, std::size_t bytes) const;

  const std::size_t piece_bytes_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> ranges_;
};

}  // namespace ringfeed
