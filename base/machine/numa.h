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

/// The kernel's notation for them, as in /sys: "0-3,8"; "" is none. White space around it does not
/// matter. Nothing if the text is not in that notation.
std::optional<CpuList> ParseCpuList(std::string_view text);
/// "0-3,8".
std::string CpuListToString(const CpuList& cpus);

/// The NUMA nodes that are online, ascending; {0} if the kernel has none. `root` is put before
/// /sys, for tests.
CpuList OnlineNodes(const std::string& root = "");
/// The number of nodes; 1 if placement makes no difference.
int NumaNodes(const std::string& root = "");

// Sets the node of memory. `data` is aligned to a page. Pages that are in memory are moved, if they
// can be; the rest get their node when they are first touched. The advice stays with the range
// until it is unmapped. Blocks while pages move. Errors: kInvalidArgument for a node that does not
// exist; kUnsupported and kPermissionDenied if the kernel or a container's filter has no mbind.
// Memory is then on any node, which is slower and no less correct.

/// On this node, or near it if it is full.
Status PreferNode(std::byte* data, std::size_t bytes, int node);
/// Page by page, in turn on these nodes.
Status InterleaveNodes(std::byte* data, std::size_t bytes, const CpuList& nodes);

/// Runs the calling thread on these CPUs alone, so far as this process may use them. Errors:
/// kInvalidArgument if it may use none of them.
Status BindThreadToCpus(const CpuList& cpus);

}  // namespace ringfeed
