#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// Whether a file of that name may be the table of a data set of many files.
bool IsTableName(std::string_view file);
/// Sets *files to the files of the data set of which `file` is the table, or the folder with that
/// table, in its order; to none if it is neither. Fails if the table is damaged, or names files
/// elsewhere than below its folder. Blocks.
Status FindDataSet(const std::string& file, std::vector<std::string>* files);

}  // namespace ringfeed
