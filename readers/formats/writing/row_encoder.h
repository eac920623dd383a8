#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/instance.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Makes records of rows, in the layout of one format (Format::NewRowEncoder). One thread at a
/// time.
class RowEncoder {
 public:
  virtual ~RowEncoder() = default;
  /// What OpenRecordWriter takes for files of such records, without their compression; empty: the
  /// format that was asked for, as it was.
  virtual std::string format() const { return {}; }
  /// Sets *record to the record of a row, which lives until the next call. kUnsupported for a value
  /// that the format has no place for.
  virtual Status Encode(const Instance& row, std::span<const std::byte>* record) = 0;
};

/// An encoder, or why there is none.
struct RowEncoderResult {
  Status status;
  std::unique_ptr<RowEncoder> encoder;
};

/// Rows as tf.Examples, a feature for each field: ragged bytes as one value of bytes, integers and
/// truth values as ints, all others as floats, which have 32 bits. A value out of their range is
/// refused.
std::unique_ptr<RowEncoder> NewExampleEncoder(std::vector<FieldSpec> fields);

/// Whether a field is texts or files: bytes of any number.
inline bool IsBytesField(const FieldSpec& field) {
  return field.dtype == DType::kUInt8 && field.shape == Shape{-1};
}

}  // namespace ringfeed
