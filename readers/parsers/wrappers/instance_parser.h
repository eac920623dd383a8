#pragma once

#include <memory>
#include <vector>

#include "readers/parsers/parser.h"
#include "ringfeed/slot.h"

namespace ringfeed {

/// Rows that are instances of a user's reader (RecordSpan::data points at an Instance) as fields of
/// a batch, stacked: checks rank, dimensions and dtype of every tensor; an error names field,
/// expected and found.
std::shared_ptr<const Parser> MakeInstanceParser(std::vector<FieldSpec> fields);

/// The same for instances that were checked against `slots`: joined along their first dimensions,
/// their LoD merged; scalars are stacked. Throws Error where another dimension than the first is
/// open.
std::shared_ptr<const Parser> MakeSlotParser(const std::vector<SlotSpec>& slots);

/// The same for instances that are rows as `like` parsed them.
std::shared_ptr<const Parser> MakeParsedRowParser(const Parser& like);

}  // namespace ringfeed
