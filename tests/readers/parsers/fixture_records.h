#pragma once

#include <string>
#include <vector>

namespace ringfeed {

/// The records of a file in tests/data that is of the format.
std::vector<std::string> RecordsOf(const std::string& format, const std::string& name);

/// In hex.
std::string Sha256(const std::string& bytes);

}  // namespace ringfeed
