#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// What a field's FieldLocation::form says about how its values stand in the record. The forms of
/// runs are numbered as their kinds.
enum FeatureForm : std::uint32_t {
  kFormMissing,  ///< no entry, or one without a kind: the default
  kFormBytes,    ///< data and bytes are the one value of a list of bytes
  kFormFloats,   ///< … the packed run of a list of numbers
  kFormDoubles,
  kFormInt32s,
  kFormInt64s,
  kFormNoBytes,  ///< a list of bytes without a value
  kFormSteps,    ///< a list of features
  kFormFeature,  ///< a whole feature, to be read the slow way
  kFormEntry,    ///< the map's whole entry, likewise
  kFormFailed,   ///< the row failed; zeros
  kFormNone,     ///< no location has it
};

constexpr FeatureForm FormOf(FeatureKind kind) { return static_cast<FeatureForm>(kind); }

/// Locates the values of a feature as all writers write it: one list, the list one run. False where
/// it is another.
bool LocateUsualFeature(const FeatureDialect& dialect, std::span<const std::byte> feature,
                        FieldLocation* location);

}  // namespace ringfeed
