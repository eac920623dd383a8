#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

namespace ringfeed::host_grid {

// CUDA's kernels on the host's processor: their own lines, compiled for it. Blocks run one after
// the other, and a block's threads are fibers, which go on in any order up to where they meet, some
// warps far behind others. So what another thread's turn decides comes out differently from one
// launch to the next. Shared memory is the section "ringfeed_shared": each block finds rubbish
// there.
//
// Offences end the program and say which: threads that never meet, a lane that waits for one that
// has ended.

/// Where the thread that runs is.
struct Place {
  uint3 thread{};
  uint3 block{};
  dim3 threads;  ///< of a block
  dim3 blocks;
};
const Place& Here();

/// All threads of a block meet.
void MeetInBlock();
/// All lanes of a warp meet, and each is told the value of the lane `down` lanes further; its own
/// where there is none.
std::uint64_t MeetInWarp(std::uint64_t value, unsigned down);

/// Runs all of it, one launch of the process at a time.
void Run(dim3 blocks, dim3 threads, const std::function<void()>& thread);

template <typename T>
T ShuffleDown(T value, unsigned down) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = MeetInWarp(bits, down);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace ringfeed::host_grid
