#pragma once

#include "readers/index/indexed_file.h"
#include "readers/index/paged_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Whether a kept index leaves a record out: its pieces of the file must be damage that it lists,
/// or nothing that the format's own framer finds a record in. Looked at are what stands before its
/// first unit and behind its last one, and of its gaps some; nothing is read if there are none.
/// kDamaged if it does. Blocks.
Status CheckCover(const PagedIndex& index, const IndexedFile& file);

}  // namespace ringfeed
