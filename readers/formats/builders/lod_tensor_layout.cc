#include "readers/formats/builders/lod_tensor_layout.h"

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

}  // namespace ringfeed
