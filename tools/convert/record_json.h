#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/instance.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Appends a record as one JSON object on one line; kDamaged if it cannot be one.
using RecordToJson = std::function<Status(std::span<const std::byte> record, std::string* json)>;

/// How records of a format become objects if their fields were not named; empty if the format says
/// nothing about the contents. tfrecord: the features of tf.Examples, ofrecord: of OFRecords, every
/// one a list; jsonl: the line itself; tar: the members by their extensions, and "__key__".
RecordToJson JsonOfFormat(std::string_view format);

/// Appends a parsed row by the names of its fields: a ragged field of bytes as a string if they are
/// UTF-8, else as {"base64": "…"}; a tensor with LoD as an array for each sequence of each level;
/// all others as nested arrays of their shape, a number for the shape of a scalar.
void AppendRowJson(const std::vector<FieldSpec>& fields, const Instance& row, std::string* json);

}  // namespace ringfeed::tools
