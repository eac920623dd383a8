#include "readers/formats/builders/tensor_layouts.h"

#include <algorithm>

namespace ringfeed {
namespace {

struct TypeNumber {
  DType dtype;
  std::uint32_t number;
};
constexpr TypeNumber kTypes[] = {
    {DType::kBool, 0},    {DType::kInt16, 1},   {DType::kInt32, 2},     {DType::kInt64, 3},
    {DType::kFloat16, 4}, {DType::kFloat32, 5}, {DType::kFloat64, 6},   {DType::kUInt64, 19},
    {DType::kUInt8, 20},  {DType::kInt8, 21},   {DType::kBFloat16, 22},
};

// For a type without a number in Paddle.
constexpr std::uint32_t kUInt16Type = 100;
constexpr std::uint32_t kUInt32Type = 101;

std::string WrongBytes(DType dtype, const Shape& shape, std::size_t bytes) {
  std::size_t expected = DTypeBytes(dtype);
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(expected, static_cast<std::size_t>(dim), &expected)) {
      return "the shape " + ShapeToString(shape) + " is none of a tensor";
    }
  }
  if (expected == bytes) return "";
  return std::string(DTypeName(dtype)) + ShapeToString(shape) + " has " + std::to_string(expected) +
         " bytes, not " + std::to_string(bytes);
}

// `counted`: the sequences of the level below, or rows.
bool IsLevel(std::span<const std::int64_t> level, std::int64_t counted) {
  return !level.empty() && level.front() == 0 && level.back() == counted &&
         std::is_sorted(level.begin(), level.end());
}

}  // namespace

std::optional<std::uint32_t> LoDTensorTypeOf(DType dtype) {
  for (const TypeNumber& type : kTypes) {
    if (type.dtype == dtype) return type.number;
  }
  return std::nullopt;
}

std::optional<DType> DTypeOfLoDTensor(std::uint64_t number) {
  for (const TypeNumber& type : kTypes) {
    if (type.number == number) return type.dtype;
  }
  return std::nullopt;
}

std::uint32_t InstanceTypeOf(DType dtype) {
  const std::optional<std::uint32_t> type = LoDTensorTypeOf(dtype);
  return type ? *type : dtype == DType::kUInt16 ? kUInt16Type : kUInt32Type;
}

std::optional<DType> DTypeOfInstance(std::uint32_t type) {
  if (type == kUInt16Type) return DType::kUInt16;
  if (type == kUInt32Type) return DType::kUInt32;
  return DTypeOfLoDTensor(type);
}

std::string WrongTensorValues(DType dtype, const Shape& shape, std::size_t bytes,
                              std::span<const std::span<const std::int64_t>> lod) {
  std::string wrong = WrongBytes(dtype, shape, bytes);
  if (!wrong.empty() || lod.empty()) return wrong;
  if (shape.empty()) return "a scalar has no LoD";
  for (std::size_t i = 0; i < lod.size(); ++i) {
    const bool lowest = i + 1 == lod.size();
    const auto counted = lowest ? shape[0] : static_cast<std::int64_t>(lod[i + 1].size()) - 1;
    if (IsLevel(lod[i], counted)) continue;
    return "a level of LoD does not ascend from 0 to the " + std::to_string(counted) +
           " that it counts";
  }
  return "";
}

}  // namespace ringfeed
