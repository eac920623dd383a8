#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {

/// A feature that the user asks for.
struct WantedFeature {
  FeatureSpec spec;
  bool truncate = false;
  bool sequence = false;  ///< a list of features, each a step of the first dimension
};

/// A wanted feature, checked and worked out.
struct FeatureField : FieldRow {
  FeatureKind kind = FeatureKind::kUnset;  ///< that it has, or mostly has if it converts
  FeatureForm as_it_is = kFormNone;        ///< the run whose bytes are the elements
  bool converts = false;                   ///< takes other kinds too
  bool truncate = false;
  std::shared_ptr<const FeatureField> step;  ///< of a sequence: the field that one of them has
};

/// Throws Error(kInvalidArgument) if the feature cannot be a field.
FeatureField MakeFeatureField(const FeatureDialect& dialect, const WantedFeature& wanted);

/// True if the run at `at` is the field's elements as they are, of the right number.
inline bool StandsAsItIs(const FeatureField& field, const FieldLocation& at) {
  if (at.form != field.as_it_is) return false;
  return field.ragged ? at.bytes % field.unit_bytes == 0 : at.bytes == field.unit_bytes;
}

/// A feature's values as the field's elements, found, checked and converted, in whatever form they
/// are. The returned Status says what is wrong with them. Their bytes are appended to `elements`
/// (if not null), *count is their number; `values` is working memory.
Status ReadFeatureField(const FeatureDialect& dialect, const FeatureField& field,
                        const FieldLocation& location, FeatureValues* values,
                        std::vector<std::byte>* elements, std::size_t* count);

}  // namespace ringfeed
