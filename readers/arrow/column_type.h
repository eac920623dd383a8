#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/status.h"
#include "ringfeed/tables/arrow_structures.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// How a column's array holds its values.
enum class ColumnLayout : std::uint8_t {
  kNumbers,     ///< `width` bytes each, as the field has them
  kBits,        ///< bools
  kDecimals,    ///< `width` bytes each: integers, which become int64
  kFixedList,   ///< `size` elements of the child each
  kBytes,       ///< offsets of 32 or 64 bits (`wide`), then data
  kViews,       ///< 16 bytes each: the value, or its place in a buffer
  kList,        ///< offsets of 32 or 64 bits (`wide`) into the child
  kListView,    ///< an offset and a size each
  kDictionary,  ///< integers (`index`) that number the values of the dictionary
  kStruct,      ///< members
};

/// The type of a column, as its schema says it: what a producer's array is checked against.
struct ColumnType {
  std::string name;
  ColumnLayout layout = ColumnLayout::kNumbers;
  DType dtype = DType::kUInt8;  ///< of the elements of the field
  Shape shape;                  ///< of a row
  std::string logical_type;     ///< FieldSpec's
  std::size_t width = 0;        ///< bytes of a number
  std::int64_t size = 0;        ///< of kFixedList
  bool wide = false;
  DType index = DType::kInt32;       ///< of kDictionary
  std::string unsupported;           ///< not empty: why the column cannot be a field
  std::vector<ColumnType> children;  ///< members; of lists the elements; of kDictionary the values

  bool ragged() const { return !shape.empty() && shape[0] < 0; }
  FieldSpec FieldNamed(std::string field) const {
    return {std::move(field), dtype, shape, logical_type};
  }
};

/// Reads a producer's schema, which is not trusted: kDamaged if it is none that the specification
/// has. Types that have no field are read, too, as `unsupported`.
Status ReadColumnType(const ArrowSchema& schema, ColumnType* type);

/// A wanted column: where it lies in the top structure, and its field.
struct ColumnPath {
  std::vector<std::size_t> members;  ///< its place in each structure on the way; empty: the top
  FieldSpec field;
};
/// The columns of these paths, in that order; all of them if there are none, the members of
/// structures one by one. A top that is no structure is one column. kNotFound names a path that
/// there is not, kUnsupported a column that cannot be a field.
Status FindColumns(const ColumnType& top, const std::vector<std::string>& wanted,
                   std::vector<ColumnPath>* found);

}  // namespace ringfeed
