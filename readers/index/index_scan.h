#pragma once

#include <stop_token>

#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Reads the file once with its format's own framer, damage skipped, so that a record's number is
/// the one that reading the file in order gives it; checksums of payloads are not looked at.
/// Memory: the index, and a window of the file of the size of a large record. Blocks. kUnsupported
/// where records cannot be read by themselves, kCancelled soon after `stop` is requested. The image
/// has all but the file's identity.
Status ScanForIndex(const IndexedFile& file, IndexImage* image, const std::stop_token& stop = {});

/// Whether records of this file can be read by themselves, as far as that is known beforehand.
Status CanBeIndexed(const IndexedFile& file);

}  // namespace ringfeed
