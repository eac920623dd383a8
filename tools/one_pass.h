#pragma once

#include <string>

#include "ringfeed/io_options.h"

namespace ringfeed::tools {

/// How a file is best read once from its start to its end. What stands in memory already is looked
/// at there, if this machine maps pages in less time than it copies them (page tables are filled
/// for one look alone); of a cold file a mapping would bring page after page. kAuto for streams and
/// for what cannot be opened. Thread safe.
IoPath PathOfOnePass(const std::string& file);

}  // namespace ringfeed::tools
