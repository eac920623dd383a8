#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// Numbers of CPUs (or of NUMA nodes), ascending, each once.
using CpuList = std::vector<int>;

/// The kernel's way to write them, as in /sys: "0-3,8"; "" is none. White space around it does not
/// matter. Nothing where it is written otherwise.
std::optional<CpuList> ParseCpuList(std::string_view text);
/// "0-3,8".
std::string CpuListToString(const CpuList& cpus);

/// The NUMA nodes that are online, ascending; {0} where the kernel has none. `root` stands before
/// /sys: for tests.
CpuList OnlineNodes(const std::string& root = "");
/// How many there are: 1 where placement makes no difference.
int NumaNodes(const std::string& root = "");

// Where memory is to be. `data` stands on a page. What is in memory already is moved there, as far
// as pages can be moved; the rest comes there when it is first touched. The advice stays with the
// range until it is unmapped. Blocks for the time of the moving. Errors: kInvalidArgument for a
// node that is not there, kUnsupported and kPermissionDenied where the kernel or a container's
// filter has no mbind: memory is then where it happens to be, which is slower and as right.

/// On this node, or, where it is full, near it.
Status PreferNode(std::byte* data, std::size_t bytes, int node);
/// Page by page in turn on these nodes.
Status InterleaveNodes(std::byte* data, std::size_t bytes, const CpuList& nodes);

/// The calling thread runs on these CPUs alone, as far as they are granted to this process.
/// Errors: kInvalidArgument where none of them is.
Status BindThreadToCpus(const CpuList& cpus);

}  // namespace ringfeed
