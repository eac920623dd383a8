#pragma once

#include <cstddef>
#include <span>

#include "readers/parsers/parser.h"
#include "readers/parsers/tensors/tensor_record.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Finds the tensors of a record: for each field its LoD levels, the top one first, and behind them
/// its values, as one location each. A level's location is its offsets without the first, which is
/// 0: u64, of any alignment. Everything that the record says of itself is checked against the bytes
/// that it has before it is used; nothing is allocated but the text of a failure, which names the
/// tensor, the byte of the record and what was expected: kDamaged, or kUnsupported for complex
/// numbers and for 4 GiB and more. Thread safe.
Status LocateLoDTensors(std::span<const std::byte> record, std::span<const TensorField> fields,
                        FieldLocation* locations);

}  // namespace ringfeed
