#pragma once

#include <vector>

#include "ringfeed/formats.h"
#include "ringfeed/instance.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed::tools {

/// Adds a row as features of a tf.Example, under the names of its fields: ragged bytes as one value
/// of bytes, integers and truth values as ints, all others as floats, which have 32 bits. Fails for
/// a value that is out of their range.
Status AddRow(const std::vector<FieldSpec>& fields, const Instance& row, ExampleBuilder* example);

}  // namespace ringfeed::tools
