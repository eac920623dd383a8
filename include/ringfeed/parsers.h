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

/// The record as it is: one ragged uint8 field "bytes".
std::shared_ptr<const Parser> RawParser();

/// Packed little-endian rows: each field directly behind the one before, all of fixed shape.
/// Throws Error(kInvalidArgument) where a field cannot be such a column.
std::shared_ptr<const Parser> RowsParser(std::vector<FieldSpec> fields);

/// tf.Example by its features (TensorFlow's example.proto). Other features and unknown fields are
/// passed over unread. As in Protobuf, the last of several entries of one name counts. Throws
/// Error(kInvalidArgument) where a feature cannot be such a field.
std::shared_ptr<const Parser> ExampleParser(std::vector<FeatureSpec> features);

}  // namespace ringfeed
