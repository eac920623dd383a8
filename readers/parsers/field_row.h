#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "ringfeed/parsers.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// The elements of a field in one row, and the default of a row that lacks it.
struct FieldRow {
  std::string name;
  DType dtype = DType::kUInt8;
  bool ragged = false;
  std::size_t elements = 1;    ///< of a row; of one step of the first dimension if ragged
  std::size_t unit_bytes = 0;  ///< the same in bytes
  bool has_default = false;
  std::vector<std::byte> missing;
};

/// Fills in all but the default. Returns null, or why there is no such field; a row may have at
/// most `most_elements`.
const char* SetFieldRow(const FieldSpec& spec, std::int64_t most_elements, FieldRow* row);

/// Whether a number is one of a type.
enum class NumberFit { kFits, kNoInteger, kTooLarge };

/// Makes the number, which is no string, the default of each element. Does nothing if it does not
/// fit.
NumberFit SetDefaultNumber(const FeatureDefault& number, FieldRow* row);

/// Whether a file's elements are `type`. Else kInvalidArgument, with both, and what can be done.
Status CheckElementType(const FileElements& elements, DType type);

/// Calls `call` with a value of the C++ type of a column's elements: of float32, float64, int8,
/// int32 or int64; for any other type, of uint8.
template <typename Call>
auto WithElementType(DType dtype, Call call) {
  switch (dtype) {
    case DType::kFloat32:
      return call(float{});
    case DType::kFloat64:
      return call(double{});
    case DType::kInt8:
      return call(std::int8_t{});
    case DType::kInt32:
      return call(std::int32_t{});
    case DType::kInt64:
      return call(std::int64_t{});
    default:
      return call(std::uint8_t{});
  }
}

}  // namespace ringfeed
