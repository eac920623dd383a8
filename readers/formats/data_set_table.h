#pragma once

#include <filesystem>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Reads the table of a data set of many files. Blocks.
Status ReadDataSetTable(const std::string& table, std::string* text);
/// A failure of that table.
Status BadTable(const std::string& table, StatusCode code, const std::string& why);
/// Whether a name in a table leads to a file below its folder.
bool LeadsBelow(const std::filesystem::path& name);

}  // namespace ringfeed
