#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace ringfeed {

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
