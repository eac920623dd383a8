#pragma once

#include <memory>
#include <vector>

#include "readers/parsers/example/feature_field.h"
#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// Whether it is a list of sequences, of any length each: a shape of [-1, -1, …].
bool IsNested(const WantedFeature& feature);

/// The parser of records of the dialect where some feature is nested: a list of values of bytes, or
/// a list of features as its steps. Such a field has two columns, its sequences' ends and all of
/// their elements. In the first phase every value that does not stand in the record as the column
/// has it is decoded; the second copies. `dialect` must live as long as the parser. Throws
/// Error(kInvalidArgument) where a feature cannot be a field. Sequences stand behind all others.
std::shared_ptr<const Parser> MakeNestedFeatureParser(const FeatureDialect& dialect,
                                                      const std::vector<WantedFeature>& features);

}  // namespace ringfeed
