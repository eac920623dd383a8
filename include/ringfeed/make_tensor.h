#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// @file
/// @details Tensors of values of your own, for a reader of your own (InstanceSource) or for a
/// queue. They own their values, which are moved here, not copied, and lie in host memory. T is a
/// number type, bool, char or std::byte; the dtype is DTypeOf<T>(). What does not fit together
/// throws Error(kInvalidArgument) with both numbers. Thread safe.

/// A tensor over memory that `owner` keeps: `elements` of `dtype`, in `shape`. Throws if the shape
/// has another number of elements or a negative dimension.
Tensor MakeTensorOver(DType dtype, Shape shape, const void* data, std::size_t elements,
                      std::shared_ptr<const void> owner);

/// The tensor with levels of LoD, the top one first, as Tensor::lod has them: offsets from 0 that
/// ascend. Each level ends at the number of sequences of the next, the last one at the tensor's
/// first dimension; throws otherwise. The offsets are moved here, the values stay where they are.
Tensor WithLoD(Tensor tensor, std::vector<std::vector<std::int64_t>> levels);
/// The offsets of rows of these lengths: {2, 3} gives {0, 2, 5}. Throws if a length is negative.
std::vector<std::int64_t> OffsetsOf(const std::vector<std::int64_t>& row_lengths);

/// A tensor of `shape`, row by row, whose elements are of `dtype`, which T may stand for
/// (IsElementOf): std::uint16_t for kBFloat16, for example.
template <typename T>
Tensor MakeTensor(DType dtype, Shape shape, std::vector<T> values) {
  if (!IsElementOf<T>(dtype)) RefuseDType(dtype, DTypeOf<T>());
  if constexpr (std::is_same_v<T, bool>) {
    // std::vector<bool> has no bools that could be pointed at.
    const std::size_t count = values.size();
    std::shared_ptr<bool[]> bools(new bool[count]);
    std::copy(values.begin(), values.end(), bools.get());
    const bool* const data = bools.get();
    return MakeTensorOver(dtype, std::move(shape), data, count, std::move(bools));
  } else {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const T* const data = owner->data();
    const std::size_t count = owner->size();
    return MakeTensorOver(dtype, std::move(shape), data, count, std::move(owner));
  }
}
/// A tensor of `shape`, row by row: `MakeTensor({2, 3}, std::vector<float>{…})`.
template <typename T>
Tensor MakeTensor(Shape shape, std::vector<T> values) {
  return MakeTensor(DTypeOf<T>(), std::move(shape), std::move(values));
}
/// A tensor of one dimension.
template <typename T>
Tensor MakeTensor(std::vector<T> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return MakeTensor(DTypeOf<T>(), {count}, std::move(values));
}
/// A tensor of no dimensions: one value.
template <typename T>
Tensor MakeScalar(T value) {
  return MakeTensor({}, std::vector<T>(1, value));
}
/// The bytes of a string: uint8 [bytes].
Tensor MakeBytes(std::string bytes);

/// Rows of different lengths: their values one after another, and lod[0] with their offsets. Each
/// value is a step of shape `step`, one element if that is {}. Throws if the lengths add up to
/// another number of steps.
template <typename T>
Tensor MakeRagged(std::vector<T> values, const std::vector<std::int64_t>& row_lengths,
                  const Shape& step = {}) {
  std::vector<std::int64_t> offsets = OffsetsOf(row_lengths);
  Shape shape = step;
  shape.insert(shape.begin(), offsets.back());
  Tensor tensor = MakeTensor(std::move(shape), std::move(values));
  return WithLoD(std::move(tensor), {std::move(offsets)});
}
/// The same of a vector for each row: their elements are copied.
template <typename T>
Tensor MakeRagged(const std::vector<std::vector<T>>& rows) {
  std::vector<T> values;
  std::vector<std::int64_t> lengths;
  for (const std::vector<T>& row : rows) {
    values.insert(values.end(), row.begin(), row.end());
    lengths.push_back(static_cast<std::int64_t>(row.size()));
  }
  return MakeRagged(std::move(values), lengths);
}
/// The bytes of a string for each row: ragged uint8. They are copied.
Tensor MakeRagged(const std::vector<std::string>& rows);

}  // namespace ringfeed
