#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// What one tensor of an instance looks like as a whole: what Paddle's readers declare by shapes,
/// dtypes and lod_levels. Where Batch stands behind such a reader, instances are joined along their
/// first dimension and their LoD is merged; a FieldSpec, in contrast, is a row, and rows are
/// stacked.
struct SlotSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape dims;  ///< all of them, the first one too; a negative one stands for any number
  std::size_t lod_levels = 0;
};

/// Whether an instance is as declared: number of tensors, dtype, rank, dimensions, bytes, levels of
/// LoD in offset form (from 0, ascending, each ending at what the next one counts, the last at the
/// first dimension). Else kInvalidArgument; its message names the slot, what was expected and what
/// was found.
Status CheckInstance(std::span<const SlotSpec> slots, const Instance& instance);

}  // namespace ringfeed
