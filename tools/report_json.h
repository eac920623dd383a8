#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "ringfeed/record.h"

namespace ringfeed::tools {

/// Keys stay in the order in which they were written.
using Json = nlohmann::ordered_json;

/// A list of {file, begin, end, reason}.
Json DamageJson(const std::vector<DamagedRange>& damage);

/// To stdout, indented. Bytes of names that are no UTF-8 are replaced.
void PrintJson(const Json& json);

}  // namespace ringfeed::tools
