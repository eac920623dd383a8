#pragma once

#include <string>
#include <vector>

namespace ringfeed {

/// The records of a file in tests/data that is of the format.
std::vector<std::string> RecordsOf(const std::string& format, const std::string& name);

}  // namespace ringfeed
