#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ringfeed/instance.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Describes one tensor of an instance as a whole, as Paddle's readers declare it by shapes, dtypes
/// and lod_levels. Batch joins such instances along their first dimension and merges their LoD. A
/// FieldSpec, in contrast, is a row, and rows are stacked.
struct SlotSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape dims;  ///< all of them, the first one too; a negative one stands for any number
  std::size_t lod_levels = 0;
};

/// Whether a tensor is as declared: dtype, rank, dimensions, bytes, and levels of LoD in offset
/// form (from 0, ascending, each ending at what the next one counts, the last at the first
/// dimension). Else kInvalidArgument; its message says what was expected and what was found.
Status CheckTensor(const SlotSpec& slot, const Tensor& tensor);
/// Whether an instance has a tensor for each slot, each as declared. Else kInvalidArgument; its
/// message names the slot, too.
Status CheckInstance(std::span<const SlotSpec> slots, const Instance& instance);

}  // namespace ringfeed
