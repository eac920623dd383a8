#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "readers/parsers/parser.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// What a tensor of a record must be.
struct LoDTensorField {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                 ///< a first dimension of -1 is any number of rows
  std::size_t lod_levels = 0;  ///< above 0 only with such a dimension
  std::size_t unit_bytes = 0;  ///< of a row, or of all of a fixed one
};

/// Finds the tensors of a record: for each field its LoD levels, the top one first, and behind them
/// its values, as one location each. A level's location is its offsets without the first, which is
/// 0: u64, of any alignment. Everything that the record says of itself is checked against the bytes
/// that it has before it is used; nothing is allocated but the text of a failure, which names the
/// tensor, the byte of the record and what was expected: kDamaged, or kUnsupported for complex
/// numbers and for 4 GiB and more. Thread safe.
Status LocateLoDTensors(std::span<const std::byte> record, std::span<const LoDTensorField> fields,
                        FieldLocation* locations);

}  // namespace ringfeed
