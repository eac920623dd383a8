#pragma once

#include <memory>
#include <vector>

#include "readers/parsers/example/feature_field.h"
#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// Whether it is a list of sequences, of any length each: a shape of [-1, -1, …].
bool IsNested(const WantedFeature& feature);

/// The parser for records of the dialect if some feature is nested: a list of values of bytes, or a
/// list of features as its steps. Such a field has two columns, the ends of its sequences and all
/// of their elements. The first phase decodes every value that is not in the record as the column
/// has it; the second copies. `dialect` must live as long as the parser. Throws
/// Error(kInvalidArgument) if a feature cannot be a field. Sequences come after all others.
std::shared_ptr<const Parser> MakeNestedFeatureParser(const FeatureDialect& dialect,
                                                      const std::vector<WantedFeature>& features);

}  // namespace ringfeed
