#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// Turns records into fields of a batch. Made by the functions below, handed to Parse; immutable,
/// may be shared by chains and threads.
class Parser;

/// What a record that lacks a feature gets: a number for every element of a fixed one, or bytes.
/// For a ragged one it is bytes (uint8), or the empty string for an empty row.
using FeatureDefault = std::variant<std::int64_t, double, std::string>;

/// One feature of a tf.Example and the field that it becomes. bytes_list gives uint8 (one value per
/// record), float_list float32, int64_list int64 or, checked for its range, int32. A first
/// dimension of -1 makes the field ragged; a fixed one must hold exactly as many elements.
struct FeatureSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;                              ///< per record; {} is a scalar
  std::optional<FeatureDefault> missing{};  ///< without it a record that lacks it is a failure
};

/// One feature of an OFRecord and the field that it becomes: float32, float64, int8, int32, int64
/// or uint8, whatever kind of list the record has for it.
///   - Numbers are converted: to a floating type as C++ does, to an integral one without their
///     fraction. One that the type cannot hold (300 for uint8, NaN for int32) makes the record a
///     failure.
///   - A bytes_list must hold exactly one value. Each of its bytes is an element: an int8 that is
///     converted, as OneFlow's raw decoder takes it; 0xff becomes -1.0 of a float and 255 of uint8.
/// A first dimension of -1 makes the field ragged: a row has a multiple of the other dimensions'
/// elements, also none. A fixed field must find exactly as many elements as its shape has, a scalar
/// one; with `truncate` more are cut off and fewer are filled up with zeros.
struct OFRecordFeatureSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;                              ///< per record; {} is a scalar
  std::optional<FeatureDefault> missing{};  ///< without it a record that lacks it is a failure
  bool truncate = false;                    ///< of a fixed field: clip, or pad with zeros
};

/// The record as it is: one ragged uint8 field "bytes".
std::shared_ptr<const Parser> RawParser();

/// Packed little-endian rows: each field directly behind the one before, all of fixed shape.
/// Throws Error(kInvalidArgument) where a field cannot be such a column.
std::shared_ptr<const Parser> RowsParser(std::vector<FieldSpec> fields);

/// tf.Example by its features (TensorFlow's example.proto). Other features and unknown fields are
/// passed over unread. As in Protobuf, the last of several entries of one name counts. Throws
/// Error(kInvalidArgument) where a feature cannot be such a field.
std::shared_ptr<const Parser> ExampleParser(std::vector<FeatureSpec> features);

/// OneFlow's OFRecord (oneflow.record_pb2: a map from names to lists of bytes, float, double, int32
/// or int64, packed or not) by its features. Other features and unknown fields are passed over
/// unread. As in Protobuf, the last of several entries of one name counts. A record that is no
/// OFRecord, lacks a feature without a default or holds another number of elements is damaged: its
/// failure names the feature and what was expected, and the reader's policy decides. Where
/// OneFlow's decoders would read on (a bytes_list of another length than the shape, a number
/// outside of its type), the record is a failure here too. The parser is immutable, shares nothing
/// with `features`, never blocks and may be used by any number of threads. Throws
/// Error(kInvalidArgument) where there is no feature, one is named twice or one cannot be such a
/// field.
std::shared_ptr<const Parser> OFRecordParser(std::vector<OFRecordFeatureSpec> features);

}  // namespace ringfeed
