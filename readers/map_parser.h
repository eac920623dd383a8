#pragma once

#include <memory>
#include <vector>

#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

/// A user's function as the last parser of a chain: `inner` (may be null) parses the record for it,
/// the function writes `fields`. Where all of them are fixed it runs when the row is written,
/// straight into the batch; where one is ragged, in the first phase, since its lengths give the
/// places.
std::shared_ptr<const Parser> MakeMapParser(std::shared_ptr<const Parser> inner,
                                            std::vector<FieldSpec> fields, MapFunction function);

/// Rows that are instances of a user's reader (RecordSpan::data points at an Instance) as fields of
/// a batch: checks rank, dimensions and dtype of every tensor; an error names field, expected and
/// found.
std::shared_ptr<const Parser> MakeInstanceParser(std::vector<FieldSpec> fields);

}  // namespace ringfeed
