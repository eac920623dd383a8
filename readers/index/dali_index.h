#pragma once

#include <string>

#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Reads the index that NVIDIA DALI's tfrecord2idx makes of a TFRecord file: text, for each record
/// a line of its offset and its bytes, frame included. kNotFound where there is none; kDamaged,
/// with the reason, where it does not cover the file without a gap, or lengths in the file, of
/// which some are looked at, are others. The image has all but the file's identity.
Status ReadDaliIndex(const std::string& path, const IndexedFile& file, IndexImage* image);

}  // namespace ringfeed
