#pragma once

#include <cstddef>
#include <memory>

#include "readers/engine/stages/content_step.h"
#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"
#include "ringfeed/sequences.h"

namespace ringfeed {

// The steps of a chain that look into records. `parser` is the one that locates them; those that
// name a field throw Error where it has no such ragged field; TokenBatch by bytes takes none.

ContentStep FilterStep(FilterFunction keep);
ContentStep GroupStep(const GroupBatchOptions& options);
ContentStep BucketStep(const BucketBatchOptions& options, const Parser& parser);
ContentStep TokenStep(const TokenBatchOptions& options, const Parser* parser);
/// Of records that a PackParser located.
ContentStep PackStep(const PackOptions& options);

}  // namespace ringfeed
