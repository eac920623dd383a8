#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringfeed {

/// The first line of a small file such as those below /proc and /sys; nothing if it cannot be read.
std::optional<std::string> FirstLineOf(const std::string& path);

/// The directories with this process's files of `controller` ("memory", "cpu"): its own first, then
/// its parents'. The limits in all of them apply.
struct CgroupPath {
  std::vector<std::string> directories;
  bool version2 = false;
};

/// Every hierarchy of `controller` that this process is in, version 2 first. `root` is put before
/// /proc and /sys, for tests.
std::vector<CgroupPath> CgroupPathsOf(std::string_view controller, const std::string& root = "");

}  // namespace ringfeed
