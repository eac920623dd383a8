#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// PaddlePaddle's LoDTensor as a stream (fluid/framework/lod_tensor.cc, tensor_util.cc and
/// framework.proto there, versions 0.12 to 1.8). A record of a RecordIO file that Fluid wrote is a
/// u32, the number of its tensors, and as many of these streams.
struct LoDTensorLayout {
  static constexpr std::uint32_t kVersion = 0;  ///< of the LoDTensor, and of the Tensor in it
  // Fields of the message TensorDesc.
  static constexpr std::uint32_t kTypeField = 1;
  static constexpr std::uint32_t kDimsField = 2;
};

/// The number of VarType.Type for elements of that type. Nothing if Paddle has no such tensors
/// (uint16, uint32). uint64 is its SIZE_T.
std::optional<std::uint32_t> LoDTensorTypeOf(DType dtype);
/// The type of that number; nothing if the number means something else.
std::optional<DType> DTypeOfLoDTensor(std::uint64_t type);

/// The numbers of the fields of proto/ringfeed/instance.proto.
struct InstanceLayout {
  static constexpr std::uint32_t kField = 1;  ///< of an Instance
  // Of a Field.
  static constexpr std::uint32_t kDescription = 1;
  static constexpr std::uint32_t kValue = 2;
  static constexpr std::uint32_t kLod = 3;
  // Of a Description.
  static constexpr std::uint32_t kName = 1;
  static constexpr std::uint32_t kDtype = 2;
  static constexpr std::uint32_t kDims = 3;
  static constexpr std::uint32_t kLodLevel = 4;
};

/// The number of Description.Type.
std::uint32_t InstanceTypeOf(DType dtype);
/// The type of that number; nothing if there is none.
std::optional<DType> DTypeOfInstance(std::uint32_t type);

/// Why these values make no tensor; empty if they make one. A tensor has as many bytes as its shape
/// says, and each level of LoD ascends from 0 to the count of what it divides.
std::string WrongTensorValues(DType dtype, const Shape& shape, std::size_t bytes,
                              std::span<const std::span<const std::int64_t>> lod);

}  // namespace ringfeed
