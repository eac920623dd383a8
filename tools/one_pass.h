#pragma once

#include <string>

#include "ringfeed/io_options.h"

namespace ringfeed::tools {

/// The best way to read a file once from its start to its end. A file that is in memory is mapped,
/// if this machine maps pages in less time than it copies them (page tables are filled for one look
/// alone); a mapping of a cold file would bring page after page. kAuto for streams and for files
/// that cannot be opened. Thread safe.
IoPath PathOfOnePass(const std::string& file);

}  // namespace ringfeed::tools
