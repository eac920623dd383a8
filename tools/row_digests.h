#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringfeed/instance.h"

namespace ringfeed::tools {

/// A row's values in all fields as one number, so that a row that was copied can be compared with
/// what it was: XXH3-64 of its bytes and their number, field by field. Of the first `rows` rows of
/// a batch; `data[f]` is where the values of `tensors[f]` are, in host memory. One number for all
/// of a batch whose tensors differ in their rows.
std::vector<std::uint64_t> RowDigests(std::span<const Tensor> tensors,
                                      std::span<const std::byte* const> data, std::uint64_t rows);
/// Of a batch in host memory, all rows.
std::vector<std::uint64_t> RowDigests(const Instance& batch);

/// Its own rows: of its top level, where it has levels.
std::uint64_t RowsOfTensor(const Tensor& tensor);
/// The steps of a tensor's first dimension that its first `rows` rows have.
std::uint64_t StepsOf(const Tensor& tensor, std::uint64_t rows);

}  // namespace ringfeed::tools
