#include "readers/formats/builders/instance_layout.h"

#include "readers/formats/builders/lod_tensor_layout.h"

namespace ringfeed {
namespace {

// What Paddle has no number for.
constexpr std::uint32_t kUInt16Type = 100;
constexpr std::uint32_t kUInt32Type = 101;

}  // namespace

std::uint32_t InstanceTypeOf(DType dtype) {
  const std::optional<std::uint32_t> type = LoDTensorTypeOf(dtype);
  return type ? *type : dtype == DType::kUInt16 ? kUInt16Type : kUInt32Type;
}

std::optional<DType> DTypeOfInstance(std::uint32_t type) {
  if (type == kUInt16Type) return DType::kUInt16;
  if (type == kUInt32Type) return DType::kUInt32;
  return DTypeOfLoDTensor(type);
}

}  // namespace ringfeed
