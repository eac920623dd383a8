#include "tools/feed/row_digests.h"

#include <xxhash.h>

#include <array>
#include <cstddef>

namespace ringfeed::tools {
namespace {

// Of one step of the first dimension.
std::uint64_t StepBytes(const Tensor& tensor) {
  const auto steps = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape[0]);
  return steps == 0 ? 0 : tensor.bytes / steps;
}

std::uint64_t DigestOfWhole(std::span<const Tensor> tensors,
                            std::span<const std::byte* const> data) {
  std::uint64_t digest = 0;
  for (std::size_t f = 0; f < tensors.size(); ++f) {
    const std::array<std::uint64_t, 2> so_far = {digest, tensors[f].bytes};
    const std::uint64_t seed = XXH3_64bits(so_far.data(), sizeof so_far);
    digest = XXH3_64bits_withSeed(data[f], tensors[f].bytes, seed);
  }
  return digest;
}

}  // namespace

std::uint64_t RowsOfTensor(const Tensor& tensor) {
  if (!tensor.lod.empty()) return tensor.lod[0].size() - 1;
  return tensor.shape.empty() ? 0 : static_cast<std::uint64_t>(tensor.shape[0]);
}

std::uint64_t StepsOf(const Tensor& tensor, std::uint64_t rows) {
  for (const std::span<const std::int64_t> level : tensor.lod) {
    rows = static_cast<std::uint64_t>(level[rows]);
  }
  return rows;
}

std::vector<std::uint64_t> RowDigests(std::span<const Tensor> tensors,
                                      std::span<const std::byte* const> data, std::uint64_t rows) {
  for (const Tensor& tensor : tensors) {
    if (RowsOfTensor(tensor) != RowsOfTensor(tensors[0])) return {DigestOfWhole(tensors, data)};
  }
  std::vector<std::uint64_t> digests(rows);
  for (std::size_t f = 0; f < tensors.size(); ++f) {
    const std::uint64_t step_bytes = StepBytes(tensors[f]);
    std::uint64_t begin = 0;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t end = StepsOf(tensors[f], row + 1) * step_bytes;
      const std::array<std::uint64_t, 2> so_far = {digests[row], end - begin};
      const std::uint64_t seed = XXH3_64bits(so_far.data(), sizeof so_far);
      digests[row] = XXH3_64bits_withSeed(data[f] + begin, end - begin, seed);
      begin = end;
    }
  }
  return digests;
}

std::vector<std::uint64_t> RowDigests(const Instance& batch) {
  std::vector<const std::byte*> data;
  for (const Tensor& tensor : batch) data.push_back(tensor.data);
  return RowDigests(batch, data, batch.empty() ? 0 : RowsOfTensor(batch[0]));
}

}  // namespace ringfeed::tools
