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

}  // namespace ringfeed
