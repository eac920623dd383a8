#pragma once

#include <span>
#include <vector>

#include "readers/parsers/example/feature_field.h"
#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Why a record that failed with `why` is refused: the first of the fields without a default that
/// the record does not have, with the nearest name that it has; else what `why` says of `fields`.
/// `features` are in the map of features, `lists` in that of lists.
Refusal ExplainMissingFeature(const FeatureDialect& dialect, std::span<const FeatureField> features,
                              std::span<const FeatureField> lists, const RecordSpan& record,
                              const Status& why, const std::vector<FieldSpec>& fields);

}  // namespace ringfeed
