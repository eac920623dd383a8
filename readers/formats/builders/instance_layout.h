#pragma once

#include <cstdint>
#include <optional>

#include "ringfeed/tensor.h"

namespace ringfeed {

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
/// The type of that number; nothing where there is none.
std::optional<DType> DTypeOfInstance(std::uint32_t type);

}  // namespace ringfeed
