#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "readers/parsers/example_values.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {

/// What a field's FieldLocation::form says about how its values stand in the record.
enum ExampleForm : std::uint32_t {
  kFormMissing,  ///< no entry, or one without a kind: the default
  kFormBytes,    ///< data and bytes are the one value of a BytesList
  kFormNoBytes,  ///< a BytesList without a value
  kFormFloats,   ///< the run of a packed FloatList
  kFormInts,     ///< the run of a packed Int64List
  kFormEntry,    ///< the map's whole entry, to be read the slow way
  kFormFailed,   ///< the row failed; zeros
};

/// A FeatureSpec, checked and worked out.
struct ExampleField {
  std::string name;
  DType dtype = DType::kUInt8;
  FeatureKind kind = FeatureKind::kBytes;
  bool ragged = false;
  std::size_t elements = 1;    ///< of a row; of one step of the first dimension where ragged
  std::size_t unit_bytes = 0;  ///< the same in bytes
  bool has_default = false;
  std::vector<std::byte> missing;  ///< what a row gets that lacks it
};

/// Throws Error(kInvalidArgument) where the feature cannot be a field.
ExampleField MakeExampleField(const FeatureSpec& spec);

/// A feature's values as the field's elements, found and checked the slow way: whatever form they
/// have. What is wrong with them is told by the returned Status. `elements` (if not null) gets
/// their bytes, *count their number.
Status ReadExampleField(const ExampleField& field, const FieldLocation& location,
                        std::vector<std::byte>* elements, std::size_t* count);

}  // namespace ringfeed
