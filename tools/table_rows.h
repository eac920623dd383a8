#pragma once

#include <string>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/reader.h"

namespace ringfeed::tools {

/// What files are, if they are tables that this build reads (the component ringfeed::arrow):
/// "parquet" or "arrow", by the first one's first bytes, or by its name if it is an address. Else
/// empty, also if `options` name a format.
std::string TableFormat(const std::vector<std::string>& files, const OpenOptions& options);
/// The rows of files that are of that `format`. Throws Error.
Reader OpenTableRows(const std::string& format, const std::vector<std::string>& files,
                     const OpenOptions& options);

}  // namespace ringfeed::tools
