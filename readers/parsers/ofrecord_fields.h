#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "readers/parsers/ofrecord_values.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {

/// What a field's FieldLocation::form says about how its values stand in the record: a kind of
/// OFRecordKind where data and bytes are its one run (packed numbers, or the one value of bytes),
/// or one of these.
enum OFRecordForm : std::uint32_t {
  kOFRecordMissing = 0,  ///< no entry, or one without a kind: the default
  kOFRecordEntry = 6,    ///< the map's whole entry, to be read the slow way
  kOFRecordFailed = 7,   ///< the row failed; zeros
};

/// An OFRecordFeatureSpec, checked and worked out.
struct OFRecordField {
  std::string name;
  DType dtype = DType::kUInt8;
  bool ragged = false;
  bool truncate = false;
  std::size_t elements = 1;    ///< of a row; of one step of the first dimension where ragged
  std::size_t unit_bytes = 0;  ///< the same in bytes
  bool has_default = false;
  std::vector<std::byte> missing;  ///< what a row gets that lacks it
};

/// Throws Error(kInvalidArgument) where the feature cannot be a field.
OFRecordField MakeOFRecordField(const OFRecordFeatureSpec& spec);

/// True where the run at `at` is the field's elements as they are, of the right number.
inline bool StandsAsItIs(const OFRecordField& field, const FieldLocation& at) {
  const auto kind = static_cast<OFRecordKind>(at.form);
  const DType dtype = field.dtype;
  const bool same = kind == OFRecordKind::kBytes
                        ? dtype == DType::kUInt8 || dtype == DType::kInt8
                        : (kind == OFRecordKind::kFloats && dtype == DType::kFloat32) ||
                              (kind == OFRecordKind::kDoubles && dtype == DType::kFloat64);
  if (!same) return false;
  return field.ragged ? at.bytes % field.unit_bytes == 0 : at.bytes == field.unit_bytes;
}

/// A feature's values as the field's elements, found, checked and converted. What is wrong with
/// them is told by the returned Status. `elements` (if not null) gets their bytes, *count their
/// number; `values` is working memory.
Status ReadOFRecordField(const OFRecordField& field, const FieldLocation& location,
                         OFRecordValues* values, std::vector<std::byte>* elements,
                         std::size_t* count);

}  // namespace ringfeed
