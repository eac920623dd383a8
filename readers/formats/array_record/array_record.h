#pragma once

#include <memory>

#include "readers/formats/format.h"

namespace ringfeed {

/// Google's ArrayRecord (format=arrayrecord), the files of Grain: chunks of Riegeli, and a footer
/// of their places (ArrayRecordFooter), so that it is read from files and stores alone.
std::shared_ptr<const Format> ArrayRecordFormat();

}  // namespace ringfeed
