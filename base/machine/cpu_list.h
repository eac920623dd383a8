#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringfeed {

/// Numbers of CPUs (or of NUMA nodes), ascending, each once.
using CpuList = std::vector<int>;

/// The kernel's way to write them, as in /sys: "0-3,8"; "" is none. White space around it does not
/// matter. Nothing where it is written otherwise.
std::optional<CpuList> ParseCpuList(std::string_view text);
/// "0-3,8".
std::string CpuListToString(const CpuList& cpus);

}  // namespace ringfeed
