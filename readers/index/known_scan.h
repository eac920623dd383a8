#pragma once

#include <stop_token>

#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// ScanForIndex of a file that was identified, which is looked at again afterwards: fails as
/// CheckKnown does if it was replaced or written meanwhile. `lasts` says whether every later write
/// will be seen by the file's state, so that the index can be kept: kUnsupported, with why not, if
/// a process has the file open for writing (it may have it mapped), if it grew, or if its times are
/// too young to be told from later ones. Waits until they are older: for a tick of the clock that
/// times are taken from, or 2 s if the file system is remote or rounds them. Blocks.
Status ScanKnown(const IndexedFile& file, const KnownFile& known, IndexImage* image, Status* lasts,
                 const std::stop_token& stop = {});

}  // namespace ringfeed
