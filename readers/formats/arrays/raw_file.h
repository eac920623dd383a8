#pragma once

#include <memory>

#include "readers/formats/format.h"

namespace ringfeed {

/// The file is one record, an empty file an empty record. Needs the whole file in one piece.
std::shared_ptr<const Format> RawFileFormat();

}  // namespace ringfeed
