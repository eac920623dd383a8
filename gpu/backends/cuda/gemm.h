#pragma once

#include <cstddef>

namespace ringfeed {

// Work that stands for a training step in measurements: like cuBLAS's, it uses the tensor cores and
// most of the memory's speed. cuBLAS itself would be half a gigabyte that the programs need at run
// time.

/// Matrices are square, of a multiple of kGemmTile rows.
inline constexpr int kGemmTile = 128;

/// c = a · bᵀ: rows of bf16 in, f32 out, in device memory aligned to 32 bytes. Enqueues, and
/// returns the cudaError_t of that (0: success). The stream's device is bound to the calling
/// thread. Thread safe.
int LaunchGemm(const std::byte* a, const std::byte* b, std::byte* c, int rows, void* stream);

}  // namespace ringfeed
