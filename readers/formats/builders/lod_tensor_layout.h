#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

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

/// The number that VarType.Type has for elements of that type; nothing where Paddle has no such
/// tensors (uint16, uint32). uint64 is its SIZE_T.
std::optional<std::uint32_t> LoDTensorTypeOf(DType dtype);
/// The type of that number; nothing where it stands for something else.
std::optional<DType> DTypeOfLoDTensor(std::uint64_t type);

}  // namespace ringfeed
