#pragma once

#include <functional>
#include <stop_token>

#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Makes the index of a file in another way than ScanForIndex.
using MakeImage = std::function<Status(IndexImage*)>;

/// ScanForIndex, or `make`, of a file that was identified, and a check of it afterwards: fails as
/// CheckKnown does if it was replaced or written meanwhile. `lasts` says whether the file's state
/// will show every later write, so that the index can be kept. If not: kUnsupported, with the
/// reason: a process has the file open for writing (it may have it mapped), it grew, or its times
/// are too young to be told from later ones. Waits until they are older: for a tick of the clock
/// that times are taken from, or 2 s if the file system is remote or rounds them. Blocks.
Status ScanKnown(const IndexedFile& file, const KnownFile& known, IndexImage* image, Status* lasts,
                 const std::stop_token& stop = {}, const MakeImage& make = {});

}  // namespace ringfeed
