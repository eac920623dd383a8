#pragma once

#include <memory>
#include <vector>

#include "readers/parsers/example/feature_field.h"
#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// Parses records of the dialect, which must live as long as the parser. Throws
/// Error(kInvalidArgument) where there is no feature, one is named twice or one cannot be a field.
/// Sequences stand behind all others.
std::shared_ptr<const Parser> MakeFeatureParser(const FeatureDialect& dialect,
                                                const std::vector<WantedFeature>& features);

}  // namespace ringfeed
