#pragma once

#include "readers/index/indexed_file.h"
#include "readers/index/paged_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Whether a kept index leaves a record out: the pieces of the file that it leaves out must be
/// damage that it lists, or bytes in which the format's own framer finds no record. It looks at the
/// bytes before its first unit and after its last one, and at some of its gaps; it reads nothing if
/// there are none. kDamaged if it leaves one out. Blocks.
Status CheckCover(const PagedIndex& index, const IndexedFile& file);

}  // namespace ringfeed
