#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include "gpu/backends/cuda/gemm.h"

namespace ringfeed {
namespace {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

constexpr int kThreads = 256;       // 8 warps: 4 down, 2 across, 32 x 64 of the tile each
constexpr int kDepth = 32;          // of a step along the sums
constexpr int kPitch = kDepth + 8;  // of a row in shared memory: rows begin in different banks
constexpr int kPiece = 16;          // of the tensor cores
constexpr int kLoad = 8;            // elements of 16 bytes
constexpr int kLoadsOfRow = kDepth / kLoad;
constexpr int kDown = 2;
constexpr int kAcross = 4;

/// Rows `first` to first + kGemmTile, columns `at` to at + kDepth of a matrix into shared memory.
__device__ void LoadTile(const __nv_bfloat16* matrix, int rows, int first, int at,
                         __nv_bfloat16* tile) {
  for (int load = static_cast<int>(threadIdx.x); load < kGemmTile * kLoadsOfRow; load += kThreads) {
    const int row = load / kLoadsOfRow;
    const int column = load % kLoadsOfRow * kLoad;
    const auto* from = matrix + static_cast<std::size_t>(first + row) * rows + at + column;
    *reinterpret_cast<uint4*>(tile + row * kPitch + column) = *reinterpret_cast<const uint4*>(from);
  }
}

__global__ void __launch_bounds__(kThreads)
    Gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int rows) {
  __shared__ __align__(32) __nv_bfloat16 a_tile[kGemmTile * kPitch];
  __shared__ __align__(32) __nv_bfloat16 b_tile[kGemmTile * kPitch];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int down = warp / 2 * kDown * kPiece;
  const int across = warp % 2 * kAcross * kPiece;
  const int first_row = static_cast<int>(blockIdx.y) * kGemmTile;
  const int first_column = static_cast<int>(blockIdx.x) * kGemmTile;
  fragment<accumulator, kPiece, kPiece, kPiece, float> sums[kDown][kAcross];
  for (auto& line : sums) {
    for (auto& sum : line) nvcuda::wmma::fill_fragment(sum, 0.0F);
  }
  for (int at = 0; at < rows; at += kDepth) {
    LoadTile(a, rows, first_row, at, a_tile);
    LoadTile(b, rows, first_column, at, b_tile);
    __syncthreads();
    for (int step = 0; step < kDepth; step += kPiece) {
      fragment<matrix_a, kPiece, kPiece, kPiece, __nv_bfloat16, row_major> left[kDown];
      for (int i = 0; i < kDown; ++i) {
        const __nv_bfloat16* from = a_tile + (down + i * kPiece) * kPitch + step;
        nvcuda::wmma::load_matrix_sync(left[i], from, kPitch);
      }
      for (int j = 0; j < kAcross; ++j) {
        fragment<matrix_b, kPiece, kPiece, kPiece, __nv_bfloat16, col_major> right;
        const __nv_bfloat16* from = b_tile + (across + j * kPiece) * kPitch + step;
        nvcuda::wmma::load_matrix_sync(right, from, kPitch);
        for (int i = 0; i < kDown; ++i) {
          nvcuda::wmma::mma_sync(sums[i][j], left[i], right, sums[i][j]);
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kDown; ++i) {
    for (int j = 0; j < kAcross; ++j) {
      const auto row = static_cast<std::size_t>(first_row + down + i * kPiece);
      float* to = c + row * rows + first_column + across + j * kPiece;
      nvcuda::wmma::store_matrix_sync(to, sums[i][j], static_cast<unsigned>(rows),
                                      nvcuda::wmma::mem_row_major);
    }
  }
}

}  // namespace

int LaunchGemm(const std::byte* a, const std::byte* b, std::byte* c, int rows, void* stream) {
  cudaLaunchConfig_t config{};
  const auto tiles = static_cast<unsigned>(rows / kGemmTile);
  config.gridDim = dim3(tiles, tiles);
  config.blockDim = dim3(kThreads);
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaLaunchKernelEx(
      &config, Gemm, reinterpret_cast<const __nv_bfloat16*>(a),
      reinterpret_cast<const __nv_bfloat16*>(b), reinterpret_cast<float*>(c), rows);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

}  // namespace ringfeed
