#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// Why no tensor is like that; empty where one is: it has as many bytes as its shape says, and each
/// level of LoD ascends from 0 to what it counts.
std::string WrongTensorValues(DType dtype, const Shape& shape, std::size_t bytes,
                              std::span<const std::span<const std::int64_t>> lod);

}  // namespace ringfeed
